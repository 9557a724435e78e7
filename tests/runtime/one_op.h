// SPDX-License-Identifier: Apache-2.0
//
// One op on operands that are at hand, without a model around it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/part_kernel.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

/// An op with its operands, and what its result is declared to be.
struct OneOp {
    std::string type;
    Tensors operands;
    graph::Shape result;
    graph::DType dtype = graph::DType::float32;
    std::vector<std::pair<std::string, graph::AttributeValue>> attributes = {};
    int opset = 22;
};

/// Of `all` those whose bit is set; the last bit counts for all that follow.
inline Tensors only(const Tensors& all, std::uint64_t bits) {
    Tensors kept(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        if ((bits >> std::min<std::size_t>(i, 63) & 1U) != 0) kept[i] = all[i];
    }
    return kept;
}

inline graph::OpGraph graph_of(const OneOp& one) {
    graph::OpGraph graph;
    graph::Op op{.name = "op", .type = one.type, .opset = one.opset};
    for (const at::Tensor& operand : one.operands) {
        op.inputs.push_back(graph.add_source({.name = "x" + std::to_string(op.inputs.size()),
                                              .shape = operand.sizes().vec(),
                                              .dtype = dtype_of(operand.scalar_type()),
                                              .role = graph::TensorRole::input}));
    }
    op.outputs.push_back(graph.add_tensor({.name = "y", .shape = one.result, .dtype = one.dtype}));
    for (const auto& [name, value] : one.attributes) op.attributes.set(name, value);
    graph.add_op(std::move(op));
    return graph;
}

/// Part `index` of `degree` of the op's first factor, on operands that are the part's.
inline at::Tensor result_of(const OneOp& one, const Tensors& operands, std::int64_t degree = 1,
                            std::int64_t index = 0) {
    const graph::OpGraph graph = graph_of(one);
    const graph::OpId id(graph.op_count() - 1);
    const graph::OpRule rule = graph::rule_of(graph, id);
    graph::Box box = graph::whole_box(rule);
    if (degree > 1) box[0] = graph::part_of(box[0], degree, index);
    return PartKernel(graph, id, rule, box).forward(operands)[0];
}

inline at::Tensor result_of(const OneOp& one) {
    return result_of(one, one.operands);
}

}  // namespace partita::runtime
