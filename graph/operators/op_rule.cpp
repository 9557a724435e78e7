// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/op_rule.h"

#include <algorithm>
#include <cassert>

#include "graph/operators/op_rules.h"
#include "graph/operators/op_table.h"
#include "graph/stated_rule.h"

namespace partita::graph {

namespace {

constexpr OpRow kEndRow{
    .type = "Input, Parameter, Constant, Output", .saves = "", .flops_per_point = 0};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return quotient - (a % b < 0 ? 1 : 0);
}

TensorRule whole_tensor(const OpGraph& graph, TensorId id) {
    TensorRule rule;
    if (id.valid()) rule.dims.resize(graph.tensor(id).shape.size());
    return rule;
}

OpRule whole_rule(const OpGraph& graph, const Op& op) {
    OpRule rule;
    for (const TensorId id : op.inputs) rule.operands.push_back(whole_tensor(graph, id));
    for (const TensorId id : op.outputs) rule.results.push_back(whole_tensor(graph, id));
    rule.saves_operands = ~std::uint64_t{0};
    rule.saves_results = ~std::uint64_t{0};
    return rule;
}

/// A factor per dim of the tensor that a source op gives or a sink op takes. A loss also takes a number for each row of
/// its tensor's last dim.
OpRule end_rule(const OpGraph& graph, const Op& op) {
    RuleBuilder b(graph, op, kEndRow);
    const bool is_sink = op.kind == OpKind::output;
    const std::vector<int> dims = b.add_dims(is_sink ? b.shape(0) : b.result_shape(0));
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
        const std::vector<int> factors{dims[static_cast<std::size_t>(i)]};
        is_sink ? b.operand(0, i, factors) : b.result(0, i, factors);
        const bool is_row = i + 1 < static_cast<int>(dims.size());
        if (b.has_operand(1) && is_row) b.operand(1, i, factors);
    }
    OpRule rule = b.finish();
    // A sink has no result, but it reduces nothing either: it takes what it gets.
    for (Factor& factor : rule.factors) {
        factor.reduction = false;
        factor.combine = Combine::none;
    }
    return rule;
}

/// Before opset 7 operands were aligned for broadcasting by attributes.
bool has_attribute_broadcasting(const Op& op) {
    return op.opset > 0 && op.opset < 7 &&
           (op.attributes.find("broadcast") != nullptr || op.type == "PRelu");
}

OpRule rule_of_kind(const OpGraph& graph, const Op& op) {
    // A workload's op has costs of its own and tensors without dims.
    if (op.given) return whole_rule(graph, op);
    if (op.kind != OpKind::compute) return end_rule(graph, op);
    const OpRow* row = find_row(op.domain, op.type);
    if (row == nullptr && states_rule(op.attributes)) return stated_rule(graph, op);
    if (row == nullptr || has_attribute_broadcasting(op)) return conservative_rule(graph, op);
    return row->make != nullptr ? row->make(graph, op, *row) : pattern_rule(graph, op, *row);
}

/// Dims that only have an upper bound are never split.
void freeze_upper_bounds(OpRule& rule, TensorRule& tensor_rule, const Tensor& tensor) {
    if (tensor.upper_bound_dims == 0) return;
    for (std::size_t dim = 0; dim < std::min<std::size_t>(tensor_rule.dims.size(), 64); ++dim) {
        if ((tensor.upper_bound_dims >> dim & 1) == 0) continue;
        for (const int f : tensor_rule.dims[dim].factors) {
            Factor& factor = rule.factors[static_cast<std::size_t>(f)];
            factor.splittable = false;
            factor.combine = Combine::none;
        }
    }
}

}  // namespace

std::string_view name_of(Combine combine) {
    switch (combine) {
    case Combine::none: return "none";
    case Combine::sum: return "sum";
    case Combine::max: return "max";
    case Combine::min: return "min";
    case Combine::product: return "product";
    case Combine::log_sum_exp: return "log_sum_exp";
    }
    return "";
}

Range unclipped_range(const Window& window, Range outputs) {
    assert(window.divisor > 0);
    return {floor_div(outputs.begin * window.stride - window.before, window.divisor),
            floor_div((outputs.end - 1) * window.stride + window.after, window.divisor) + 1};
}

Range operand_range(const Window& window, Range outputs, std::int64_t extent) {
    if (outputs.begin >= outputs.end) return {};
    const Range all = unclipped_range(window, outputs);
    const Range range{std::clamp<std::int64_t>(all.begin, 0, extent),
                      std::clamp<std::int64_t>(all.end, 0, extent)};
    return range.begin < range.end ? range : Range{};
}

OpRule conservative_rule(const OpGraph& graph, const Op& op) {
    OpRule rule = whole_rule(graph, op);
    rule.conservative = true;
    return rule;
}

OpRule rule_of(const OpGraph& graph, OpId id) {
    const Op& op = graph.op(id);
    OpRule rule = rule_of_kind(graph, op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) continue;
        freeze_upper_bounds(rule, rule.operands[i], graph.tensor(op.inputs[i]));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (!op.outputs[i].valid()) continue;
        freeze_upper_bounds(rule, rule.results[i], graph.tensor(op.outputs[i]));
    }
    return rule;
}

std::vector<OpRule> rules_of(const OpGraph& graph) {
    std::vector<OpRule> rules;
    rules.reserve(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) rules.push_back(rule_of(graph, OpId(i)));
    return rules;
}

}  // namespace partita::graph
