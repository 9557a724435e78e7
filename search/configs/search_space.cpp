// SPDX-License-Identifier: Apache-2.0
#include "search/configs/search_space.h"

namespace partita::search {

using graph::OpId;

SearchSpace::SearchSpace(const GroupGraph& groups)
    : groups_(groups),
      repeats_(groups.problem()),
      table_(groups.problem()),
      propagation_(groups.problem(), groups.groups(), table_),
      parameter_shardings_(groups.problem(), table_, propagation_),
      is_parameter_(groups.problem().graph().op_count(), 0),
      leaders_(groups.size()) {
    const plan::Problem& problem = groups.problem();
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId id(i);
        const graph::Op& op = problem.graph().op(id);
        if (op.kind == graph::OpKind::parameter && problem.facts().has_gradient(op.outputs[0]) &&
            !problem.graph().uses(op.outputs[0]).empty()) {
            parameters_.push_back(id);
            is_parameter_[i] = 1;
        }
        if (!problem.facts().has_forward(id)) continue;
        computing_.push_back(id);
        OpId& leader = leaders_[static_cast<std::size_t>(groups.groups().of[i])];
        if (!leader.valid() || problem.bounds().best_time(id) > problem.bounds().best_time(leader))
            leader = id;
    }
    find_partners();
    find_shortage();
}

void SearchSpace::find_shortage() {
    Bytes kept;
    for (const OpId parameter : parameters_) kept += problem().facts().persistent_bytes(parameter);
    for (int d = 0; d < problem().device_count(); ++d) {
        is_memory_short_ =
            is_memory_short_ || problem().constraints().memory_capacity(d) < 2 * kept;
    }
}

void SearchSpace::find_partners() {
    const auto& together = problem().constraints().together();
    if (together.empty()) return;
    std::vector<std::vector<std::uint32_t>> of(problem().graph().op_count());
    for (std::size_t g = 0; g < together.size(); ++g) {
        for (const OpId op : together[g]) of[op.index()].push_back(static_cast<std::uint32_t>(g));
    }
    for (const auto& groups : of) {
        partners_.add_row(groups);
    }
}

OpId SearchSpace::leader(OpId op) const {
    return leaders_[static_cast<std::size_t>(groups_.groups().of[op.index()])];
}

bool SearchSpace::same_group(OpId a, OpId b) const {
    return groups_.groups().of[a.index()] == groups_.groups().of[b.index()];
}

}  // namespace partita::search
