// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/soap.h"

#include <algorithm>
#include <cassert>

namespace partita::graph {

std::string_view name_of(SoapClass soap) {
    switch (soap) {
    case SoapClass::sample: return "sample";
    case SoapClass::parameter: return "parameter";
    case SoapClass::attribute: return "attribute";
    case SoapClass::reduction: return "reduction";
    }
    return "";
}

namespace {

/// The positions of a factor inside its dim: those of the factors right of it are its stride.
std::int64_t stride_in(const OpRule& rule, const DimRule& dim, std::size_t at) {
    std::int64_t stride = 1;
    for (std::size_t i = at + 1; i < dim.factors.size(); ++i) {
        stride *= rule.factors[static_cast<std::size_t>(dim.factors[i])].extent;
    }
    return stride;
}

/// What of the batch lies in a factor of the dim, in positions of that factor; extent 0 if nothing.
BatchDigit overlap(const OpRule& rule, const DimRule& dim, std::size_t at,
                   const BatchDigit& batch) {
    const Factor& factor = rule.factors[static_cast<std::size_t>(dim.factors[at])];
    // A dim that is one factor: strides of windowed dims are those of the operand, so take it all.
    if (dim.factors.size() == 1) {
        const bool is_part = !dim.window && batch.stride * batch.extent <= factor.extent;
        return is_part ? batch : BatchDigit{1, std::max<std::int64_t>(factor.extent, 1)};
    }
    const std::int64_t stride = stride_in(rule, dim, at);
    const std::int64_t low = std::max(stride, batch.stride);
    const std::int64_t high = std::min(stride * factor.extent, batch.stride * batch.extent);
    return low < high ? BatchDigit{low / stride, high / low} : BatchDigit{1, 0};
}

/// Per factor of the op the part of the batch in it; extent 0 = none.
std::vector<BatchDigit> batch_in_factors(const Op& op, const OpRule& rule,
                                         const std::vector<TensorOrigin>& origins) {
    std::vector<BatchDigit> batch(rule.factors.size(), BatchDigit{1, 0});
    const auto add = [&](const std::vector<TensorId>& tensors,
                         const std::vector<TensorRule>& tensor_rules) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (!tensors[i].valid()) continue;
            const TensorOrigin& origin = origins[tensors[i].index()];
            if (origin.sample_dim < 0 ||
                static_cast<std::size_t>(origin.sample_dim) >= tensor_rules[i].dims.size()) {
                continue;
            }
            const DimRule& dim = tensor_rules[i].dims[static_cast<std::size_t>(origin.sample_dim)];
            for (std::size_t at = 0; at < dim.factors.size(); ++at) {
                const BatchDigit digit =
                    overlap(rule, dim, at, {origin.sample_stride, origin.sample_extent});
                BatchDigit& known = batch[static_cast<std::size_t>(dim.factors[at])];
                if (known.extent == 0) known = digit;
            }
        }
    };
    add(op.inputs, rule.operands);
    // Seeds of inputs, and what the readers of a result said of it.
    add(op.outputs, rule.results);
    return batch;
}

/// Where the batch lies in a tensor: in its first dim that holds some of it.
void set_sample_dim(const OpRule& rule, const TensorRule& tensor,
                    const std::vector<BatchDigit>& batch, TensorOrigin& origin) {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        const DimRule& dim = tensor.dims[d];
        for (std::size_t at = 0; at < dim.factors.size(); ++at) {
            const BatchDigit& digit = batch[static_cast<std::size_t>(dim.factors[at])];
            if (digit.extent == 0) continue;
            const std::int64_t stride = stride_in(rule, dim, at) * digit.stride;
            if (origin.sample_dim < 0) {
                origin.sample_dim = static_cast<int>(d);
                origin.sample_stride = stride;
                origin.sample_extent = digit.extent;
            } else if (stride * digit.extent == origin.sample_stride) {
                // The next digit to the right belongs to the batch too: (b1 b2) is one batch.
                origin.sample_stride = stride;
                origin.sample_extent *= digit.extent;
            }
        }
        if (origin.sample_dim >= 0) return;
    }
}

bool is_weight(const OpGraph& graph, const Op& op, const std::vector<TensorOrigin>& origins) {
    bool any = false;
    for (const TensorId id : op.inputs) {
        if (!id.valid()) continue;
        if (origins[id.index()].weight) {
            any = true;
        } else if (graph.tensor(id).role != TensorRole::constant) {
            return false;
        }
    }
    return any;
}

/// The seed of an input: its batch dim, if it has one.
void seed(const Tensor& input, int dim, TensorOrigin& origin) {
    if (dim < 0 || static_cast<std::size_t>(dim) >= input.shape.size()) return;
    origin.sample_dim = dim;
    origin.sample_extent = std::max<std::int64_t>(1, input.shape[static_cast<std::size_t>(dim)]);
}

/// From operands to results.
void propagate_forward(const OpGraph& graph, const std::vector<OpRule>& rules,
                       std::vector<TensorOrigin>& origins) {
    for (const OpId id : graph.topological_order()) {
        const Op& op = graph.op(id);
        if (op.kind == OpKind::parameter) origins[op.outputs[0].index()].weight = true;
        if (op.inputs.empty()) continue;
        const OpRule& rule = rules[id.index()];
        const std::vector<BatchDigit> batch = batch_in_factors(op, rule, origins);
        const bool weight = is_weight(graph, op, origins);
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (!op.outputs[i].valid()) continue;
            TensorOrigin& origin = origins[op.outputs[i].index()];
            origin.weight = weight;
            set_sample_dim(rule, rule.results[i], batch, origin);
        }
    }
}

/// From results to operands: a mask or an initial state made for the whole batch, by ops that no
/// input reaches, has the batch where its reader has it. Parameters and inputs never.
void propagate_backward(const OpGraph& graph, const std::vector<OpRule>& rules,
                        std::vector<TensorOrigin>& origins) {
    const std::vector<OpId> order = graph.topological_order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
        const Op& op = graph.op(*id);
        const OpRule& rule = rules[id->index()];
        const std::vector<BatchDigit> batch = batch_in_factors(op, rule, origins);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid()) continue;
            TensorOrigin& origin = origins[op.inputs[i].index()];
            const Tensor& tensor = graph.tensor(op.inputs[i]);
            const bool is_given =
                tensor.role == TensorRole::input || tensor.role == TensorRole::parameter;
            if (is_given || origin.sample_dim >= 0) continue;
            set_sample_dim(rule, rule.operands[i], batch, origin);
        }
    }
}

}  // namespace

std::vector<TensorOrigin> tensor_origins(const OpGraph& graph, const std::vector<OpRule>& rules,
                                         const std::vector<int>& input_sample_dims) {
    std::vector<TensorOrigin> origins(graph.tensor_count());
    std::size_t input = 0;
    for (const Op& op : graph.ops()) {
        if (op.kind != OpKind::input) continue;
        assert(input_sample_dims.empty() || input < input_sample_dims.size());
        const int dim = input_sample_dims.empty() ? 0 : input_sample_dims[input];
        ++input;
        seed(graph.tensor(op.outputs[0]), dim, origins[op.outputs[0].index()]);
    }
    propagate_forward(graph, rules, origins);
    propagate_backward(graph, rules, origins);
    return origins;
}

std::vector<BatchDigit> batch_digits(const OpGraph& graph, OpId id, const OpRule& rule,
                                     const std::vector<TensorOrigin>& origins) {
    return batch_in_factors(graph.op(id), rule, origins);
}

std::vector<SoapClass> soap_classes(const OpGraph& graph, OpId id, const OpRule& rule,
                                    const std::vector<TensorOrigin>& origins) {
    const Op& op = graph.op(id);
    const std::vector<BatchDigit> batch = batch_in_factors(op, rule, origins);
    std::vector<bool> splits_weight(rule.factors.size(), false);
    const auto mark = [&](const TensorRule& tensor) {
        for (const DimRule& dim : tensor.dims) {
            for (const int f : dim.factors) splits_weight[static_cast<std::size_t>(f)] = true;
        }
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i].valid() && origins[op.inputs[i].index()].weight) mark(rule.operands[i]);
    }
    if (op.kind == OpKind::parameter) mark(rule.results[0]);

    std::vector<SoapClass> classes;
    classes.reserve(rule.factors.size());
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        classes.push_back(batch[f].extent > 0         ? SoapClass::sample
                          : rule.factors[f].reduction ? SoapClass::reduction
                          : splits_weight[f]          ? SoapClass::parameter
                                                      : SoapClass::attribute);
    }
    return classes;
}

}  // namespace partita::graph
