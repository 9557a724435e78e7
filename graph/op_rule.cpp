// SPDX-License-Identifier: Apache-2.0
#include "graph/op_rule.h"

namespace partita::graph {

namespace {

TensorRule whole_tensor(const OpGraph& graph, TensorId id) {
    TensorRule rule;
    if (id.valid()) rule.dims.resize(graph.tensor(id).shape.size());
    return rule;
}

OpRule conservative_rule(const OpGraph& graph, const Op& op) {
    OpRule rule;
    for (const TensorId id : op.inputs) rule.operands.push_back(whole_tensor(graph, id));
    for (const TensorId id : op.outputs) rule.results.push_back(whole_tensor(graph, id));
    rule.saves_operands = ~std::uint64_t{0};
    rule.saves_results = ~std::uint64_t{0};
    rule.conservative = true;
    return rule;
}

}  // namespace

OpRule rule_of(const OpGraph& graph, OpId id) { return conservative_rule(graph, graph.op(id)); }

std::vector<OpRule> rules_of(const OpGraph& graph) {
    std::vector<OpRule> rules;
    rules.reserve(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) rules.push_back(rule_of(graph, OpId(i)));
    return rules;
}

}  // namespace partita::graph
