// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/product_type.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/operators/op_rule.h"
#include "graph/operators/op_table.h"

namespace partita::graph {

namespace {

/// Ops that hand a weight on as it is; of the domain "partita" a Transpose that is a view.
constexpr std::array<std::string_view, 6> kHandOn = {"Transpose", "Reshape",   "Identity",
                                                     "Squeeze",   "Unsqueeze", "Cast"};

bool is_weight(const OpGraph& graph, TensorId t) {
    while (t.valid()) {
        const Op& producer = graph.op(graph.tensor(t).producer);
        if (producer.kind == OpKind::parameter) return true;
        const bool is_known = producer.domain.empty() || producer.domain == "partita";
        const bool hands_on = producer.kind == OpKind::compute && is_known &&
                              std::ranges::find(kHandOn, producer.type) != kHandOn.end();
        if (!hands_on || producer.inputs.empty()) return false;
        t = producer.inputs[0];
    }
    return false;
}

bool has_products_of(const OpGraph& graph, OpId id, ProductType type) {
    const Op& op = graph.op(id);
    if (op.kind != OpKind::compute || op.given) return false;
    const auto any = [&](const auto& has_type) {
        return std::ranges::any_of(
            op.inputs, [&](TensorId t) { return t.valid() && has_type(graph.tensor(t).dtype); });
    };
    if (type == ProductType::tf32) {
        const auto is_float32 = [](DType dtype) { return dtype == DType::float32; };
        return any(is_float32) && rule_of(graph, id).matrix_product;
    }
    return is_product(op) && any(is_precision) &&
           std::ranges::any_of(op.inputs, [&](TensorId t) { return is_weight(graph, t); });
}

}  // namespace

std::size_t set_product_type(OpGraph& graph, ProductType type) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!has_products_of(graph, OpId(i), type)) continue;
        graph.op(OpId(i)).product_type = type;
        ++count;
    }
    return count;
}

}  // namespace partita::graph
