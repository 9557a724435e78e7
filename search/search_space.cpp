// SPDX-License-Identifier: Apache-2.0
#include "search/search_space.h"

#include <utility>

namespace partita::search {

using graph::OpId;

SearchSpace::SearchSpace(const GroupGraph& groups, ConfigTableOptions options)
    : groups_(groups),
      repeats_(groups.problem()),
      table_(groups.problem(), std::move(options)),
      leaders_(groups.size()) {
    const plan::Problem& problem = groups.problem();
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId id(i);
        const graph::Op& op = problem.graph().op(id);
        if (op.kind == graph::OpKind::parameter && problem.has_gradient(op.outputs[0]) &&
            !problem.graph().uses(op.outputs[0]).empty()) {
            parameters_.push_back(id);
        }
        if (!problem.has_forward(id)) continue;
        computing_.push_back(id);
        OpId& leader = leaders_[static_cast<std::size_t>(groups.groups().of[i])];
        if (!leader.valid() || problem.best_time(id) > problem.best_time(leader)) leader = id;
    }
}

OpId SearchSpace::leader(OpId op) const {
    return leaders_[static_cast<std::size_t>(groups_.groups().of[op.index()])];
}

bool SearchSpace::same_group(OpId a, OpId b) const {
    return groups_.groups().of[a.index()] == groups_.groups().of[b.index()];
}

}  // namespace partita::search
