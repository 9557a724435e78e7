// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/loss_graph.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "graph/graph_copy.h"
#include "plan/problem/op_costs.h"

namespace partita::plan {

using graph::Op;
using graph::OpGraph;
using graph::OpId;
using graph::OpKind;
using graph::Tensor;
using graph::TensorId;

namespace {

constexpr std::string_view kRowsType = "ReduceLogSumExp";
constexpr std::string_view kRowsSuffix = "/log_sum_exp";
constexpr int kOpset = 13;  // axes of ReduceLogSumExp are an attribute

class Writer {
public:
    explicit Writer(const OpGraph& model) : model_(model), unused_(model) {}

    /// `has_loss`: per op.
    LossGraph write(const std::vector<char>& has_loss) {
        to_.name = model_.name;
        for (const Tensor& tensor : model_.tensors()) to_.add_tensor(tensor);
        std::vector<OpId> ops;
        for (std::size_t i = 0; i < model_.op_count(); ++i) {
            Op op = model_.ops()[i];
            const bool is_loss = op.kind == OpKind::output && has_loss[i] != 0 &&
                                 !model_.tensor(op.inputs[0]).shape.empty();
            if (is_loss) op.inputs.push_back(add_rows(op));
            ops.push_back(to_.add_op(std::move(op)));
        }
        return {std::move(to_), std::move(ops)};
    }

private:
    TensorId add_rows(const Op& output) {
        const Tensor& scores = model_.tensor(output.inputs[0]);
        const std::size_t last = scores.shape.size() - 1;
        Tensor rows;
        rows.name = unused_(output.name + std::string(kRowsSuffix));
        rows.shape = scores.shape;
        rows.shape[last] = 1;
        rows.dtype = graph::bits_of(scores.dtype) < 32 ? graph::DType::float32 : scores.dtype;
        rows.upper_bound_dims = scores.upper_bound_dims;
        if (last < 64) rows.upper_bound_dims &= ~(std::uint64_t{1} << last);
        Op op;
        op.name = rows.name;
        op.type = kRowsType;
        op.opset = kOpset;
        op.block = output.block;
        op.attributes.set("axes", std::vector<std::int64_t>{-1});
        op.inputs = {output.inputs[0]};
        op.outputs = {to_.add_tensor(std::move(rows))};
        const TensorId result = op.outputs[0];
        to_.add_op(std::move(op));
        return result;
    }

    const OpGraph& model_;
    graph::UnusedNames unused_;
    OpGraph to_;
};

}  // namespace

std::optional<LossGraph> graph_with_loss(const OpGraph& model, Mode mode, const Policy& policy) {
    if (mode != Mode::training || policy.loss != LossKind::cross_entropy) return std::nullopt;
    return Writer(model).write(gradient_paths(model, policy).backward);
}

bool is_added_by_loss(const OpGraph& graph, std::string_view name, std::string_view type) {
    if (type != kRowsType) return false;
    return std::ranges::any_of(graph.ops(), [&](const Op& op) {
        return op.kind == OpKind::output && name.starts_with(op.name + std::string(kRowsSuffix));
    });
}

Constraints constraints_with_loss(const OpGraph& model, const LossGraph& loss,
                                  Constraints constraints) {
    if (!constraints.allowed.empty()) {
        std::vector<std::vector<int>> allowed(loss.graph.op_count());
        for (std::size_t i = 0; i < constraints.allowed.size(); ++i) {
            const std::size_t at = loss.ops[i].index();
            const bool adds = model.ops()[i].inputs.size() != loss.graph.ops()[at].inputs.size();
            if (adds) allowed[at - 1] = constraints.allowed[i];
            allowed[at] = std::move(constraints.allowed[i]);
        }
        constraints.allowed = std::move(allowed);
    }
    for (std::vector<OpId>& group : constraints.together) {
        for (OpId& op : group) op = loss.ops[op.index()];
    }
    return constraints;
}

}  // namespace partita::plan
