// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/elimination_variables.h"

#include <cassert>

#include "graph/op_graph.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

EliminationVariables::EliminationVariables(const Problem& problem)
    : problem_(problem),
      groups_(make_groups(problem, Grouping::required_only)),
      group_of_(problem.graph().op_count(), -1),
      variable_of_(problem.graph().op_count(), -1) {
    assert(groups_.conflict.empty());  // the engine has asked before
    const graph::OpGraph& graph = problem_.graph();
    for (const auto& together : problem_.constraints().together()) {
        for (const OpId op : together) group_of_[op.index()] = groups_.of[op.index()];
    }
    std::vector<int> variable_of_group(groups_.size(), -1);
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.op(OpId(i));
        if (group_of_[i] >= 0) {
            int& variable = variable_of_group[static_cast<std::size_t>(group_of_[i])];
            if (variable < 0) {
                variable = static_cast<int>(members_.size());
                members_.emplace_back();
            }
            variable_of_[i] = variable;
            members_[static_cast<std::size_t>(variable)].emplace_back(i);
            continue;
        }
        if (op.kind != OpKind::compute && op.kind != OpKind::output) {
            const TensorId t = op.outputs[0];
            const bool unread = graph.uses(t).empty();
            if (unread || problem_.facts().is_resident(t) || is_folded(t)) continue;
        }
        variable_of_[i] = static_cast<int>(members_.size());
        members_.push_back({OpId(i)});
    }
}

bool EliminationVariables::is_folded(TensorId t) const {
    const graph::OpGraph& graph = problem_.graph();
    const OpId producer = graph.tensor(t).producer;
    const OpKind kind = graph.op(producer).kind;
    if (kind == OpKind::compute || kind == OpKind::output) return false;
    return graph.uses(t).size() == 1 && !problem_.facts().is_resident(t) && group(producer) < 0;
}

}  // namespace partita::search
