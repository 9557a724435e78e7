// SPDX-License-Identifier: Apache-2.0
//
// If, Loop, Scan: one op that carries its bodies. It is never split; its work is that of the
// costliest branch, or of the body times the trips (one, when their number depends on data).
#include <algorithm>

#include "graph/operators/op_rules.h"

namespace partita::graph {

OpRule control_flow_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    Flops costliest;
    bool has_product = false;
    for (const Body& body : op.bodies) {
        Flops flops;
        for (const OpRule& rule : rules_of(*body.graph)) {
            flops += rule.flops;
            has_product |= rule.matrix_product;
        }
        costliest = std::max(costliest, flops);
    }
    b.set_flops(op.trip_count.value_or(1) * costliest);
    OpRule rule = b.finish();
    rule.matrix_product = has_product;
    rule.saves_operands = ~std::uint64_t{0};
    rule.saves_results = ~std::uint64_t{0};
    return rule;
}

}  // namespace partita::graph
