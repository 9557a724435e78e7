// SPDX-License-Identifier: Apache-2.0
//
// Reductions over dims. The axes are an attribute or, in newer opsets, operand 1; without any all
// dims are reduced, unless noop_with_empty_axes says none.
#include <algorithm>
#include <array>
#include <numeric>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/row_blocks.h"

namespace partita::runtime {

namespace {

struct Reduction {
    graph::Shape dims;  ///< rising
    bool keeps_dims = true;
    bool is_noop = false;
};

Reduction reduction_of(const KernelCall& call, std::int64_t rank) {
    Reduction reduction{.dims = call.integers_of(1, "axes"),
                        .keeps_dims = call.integer("keepdims", 1) != 0};
    if (reduction.dims.empty()) {
        reduction.is_noop = call.integer("noop_with_empty_axes", 0) != 0;
        reduction.dims.resize(static_cast<std::size_t>(rank));
        std::iota(reduction.dims.begin(), reduction.dims.end(), 0);
    }
    for (std::int64_t& dim : reduction.dims) dim = from_front(dim, rank);
    std::ranges::sort(reduction.dims);
    return reduction;
}

Reduction reduction_of(const KernelCall& call) {
    return reduction_of(call, call.operand(0).dim());
}

/// A result or its gradient with the reduced dims as 1, so that it broadcasts to the operand.
at::Tensor spread(at::Tensor result, const Reduction& reduction) {
    if (reduction.keeps_dims) return result;
    for (const std::int64_t dim : reduction.dims) result = result.unsqueeze(dim);
    return result;
}

bool is_float(const at::Tensor& x) {
    return x.is_floating_point() || x.is_complex();
}

/// `reduce` of all dims at once; of nothing to reduce, `map` alone. Integers give integers.
template <class Reduce, class Map>
Tensors reduced(const KernelCall& call, Reduce reduce, Map map) {
    const at::Tensor& x = call.operand(0);
    const Reduction reduction = reduction_of(call);
    const at::Tensor result =
        reduction.is_noop ? map(x) : reduce(x, reduction.dims, reduction.keeps_dims);
    return {result.to(x.scalar_type())};
}

at::Tensor itself(const at::Tensor& x) {
    return x;
}

at::Tensor sum_over(const at::Tensor& x, const graph::Shape& dims, bool keeps) {
    return dims.empty() ? x : at::sum(x, dims, keeps, x.scalar_type());
}

/// Integers as numbers that have roots and logarithms.
at::Tensor real_of(const at::Tensor& x) {
    return is_float(x) ? x : x.to(at::kDouble);
}

Tensors reduce_sum(const KernelCall& call) {
    return reduced(call, sum_over, itself);
}

Tensors reduce_mean(const KernelCall& call) {
    const auto mean = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        return dims.empty() ? x : at::mean(real_of(x), dims, keeps);
    };
    return reduced(call, mean, itself);
}

Tensors reduce_l1(const KernelCall& call) {
    const auto norm = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        return sum_over(x.abs(), dims, keeps);
    };
    return reduced(call, norm, at::abs);
}

Tensors reduce_l2(const KernelCall& call) {
    const auto norm = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        const at::Tensor real = real_of(x);
        return sum_over(real * real, dims, keeps).sqrt();
    };
    return reduced(call, norm, at::abs);
}

Tensors reduce_sum_square(const KernelCall& call) {
    const auto sum = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        return sum_over(x * x, dims, keeps);
    };
    return reduced(call, sum, [](const at::Tensor& x) { return x * x; });
}

Tensors reduce_log_sum(const KernelCall& call) {
    const auto log_sum = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        return sum_over(real_of(x), dims, keeps).log();
    };
    return reduced(call, log_sum, [](const at::Tensor& x) { return real_of(x).log(); });
}

Tensors reduce_log_sum_exp(const KernelCall& call) {
    const at::Tensor x = real_of(call.operand(0));
    const Reduction reduction = reduction_of(call);
    const at::ScalarType type = held_type(call.op.results[0].dtype);
    const at::ScalarType wide = at::promote_types(x.scalar_type(), type);
    if (reduction.is_noop || reduction.dims.empty()) return {x.to(type)};
    const std::int64_t last = x.dim() - 1;
    if (reduction.dims == graph::Shape{last} && x.numel() > 0) {
        const at::Tensor rows = log_sum_exp_of_rows(x.reshape({-1, x.size(last)}), wide);
        graph::Shape shape = x.sizes().vec();
        shape.back() = 1;
        const at::Tensor result = rows.reshape(shape).to(type);
        return {reduction.keeps_dims ? result : result.squeeze(last)};
    }
    return {at::logsumexp(x.to(wide), reduction.dims, reduction.keeps_dims).to(type)};
}

Tensors reduce_prod(const KernelCall& call) {
    const auto product = [](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        at::Tensor result = x;
        for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
            result = at::prod(result, *dim, keeps, x.scalar_type());
        }
        return result;
    };
    return reduced(call, product, itself);
}

/// The smallest (largest) of no elements is the type's largest (smallest) value.
at::Tensor extreme_of_nothing(const at::Tensor& x, graph::Shape dims, bool keeps, bool is_max,
                              graph::DType dtype) {
    const double bound = x.is_floating_point() ? std::numeric_limits<double>::infinity()
                         : is_max              ? -lowest_of(dtype)
                                               : highest_of(dtype);
    const at::Tensor shape = at::sum(x, dims, keeps);
    return at::full(shape.sizes(), is_max ? -bound : bound, x.options());
}

template <bool kIsMax>
Tensors reduce_extreme(const KernelCall& call) {
    const graph::DType dtype = call.op.operands[0].dtype;
    const auto extreme = [&](const at::Tensor& x, const graph::Shape& dims, bool keeps) {
        if (dims.empty()) return x;
        if (x.numel() == 0) return extreme_of_nothing(x, dims, keeps, kIsMax, dtype);
        return kIsMax ? at::amax(x, dims, keeps) : at::amin(x, dims, keeps);
    };
    return reduced(call, extreme, itself);
}

// Backward: a gradient of the result goes to every element that the result was made of.

at::Tensor spread_gradient(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const Reduction reduction = reduction_of(call, static_cast<std::int64_t>(shape.size()));
    if (reduction.is_noop) return call.gradients[0];
    return spread(call.gradients[0], reduction).expand(shape);
}

Tensors reduce_sum_backward(const BackwardCall& call) {
    return only_first(call, spread_gradient(call));
}

Tensors reduce_mean_backward(const BackwardCall& call) {
    const at::Tensor gradient = spread_gradient(call);
    const std::int64_t results = std::max<std::int64_t>(call.gradients[0].numel(), 1);
    return only_first(
        call, gradient * (static_cast<double>(results) / static_cast<double>(gradient.numel())));
}

/// The result is that of all parts: every element equal to it gets the whole gradient, wherever it
/// lies.
Tensors reduce_extreme_backward(const BackwardCall& call) {
    const at::Tensor& x = call.operand(0);
    const Reduction reduction = reduction_of(call);
    const at::Tensor result =
        reduction.is_noop ? call.results[0] : spread(call.results[0], reduction);
    return only_first(call, at::where(x.eq(result), spread_gradient(call), 0));
}

/// The result is that of all parts, y: dy/dx = exp(x - y).
Tensors reduce_log_sum_exp_backward(const BackwardCall& call) {
    const at::Tensor& x = call.operand(0);
    const Reduction reduction = reduction_of(call);
    if (reduction.is_noop) return only_first(call, spread_gradient(call));
    const at::Tensor distance = x - spread(call.results[0], reduction);
    return only_first(call, spread_gradient(call) * at::exp(distance));
}

/// Of a part the result is that of all parts, y: dy/dx = y / x, which is no number where x is 0
/// (the other factors are not known then). Of the whole op autograd knows them.
Tensors reduce_prod_backward(const BackwardCall& call) {
    if (call.op.results[0].combine == graph::Combine::none) {
        return differentiate_again(call, reduce_prod);
    }
    const Reduction reduction = reduction_of(call);
    const at::Tensor result = spread(call.results[0], reduction);
    return only_first(call, spread_gradient(call) * result / call.operand(0));
}

}  // namespace

std::span<const KernelRow> reduction_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "ReduceL1",
                  .forward = widened<reduce_l1>,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceL2",
                  .forward = widened<reduce_l2>,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceLogSum",
                  .forward = widened<reduce_log_sum>,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceLogSumExp",
                  .forward = widened<reduce_log_sum_exp>,
                  .backward = reduce_log_sum_exp_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceMax",
                  .forward = widened<reduce_extreme<true>>,
                  .backward = reduce_extreme_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceMean",
                  .forward = widened<reduce_mean>,
                  .backward = reduce_mean_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceMin",
                  .forward = widened<reduce_extreme<false>>,
                  .backward = reduce_extreme_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceProd",
                  .forward = widened<reduce_prod>,
                  .backward = reduce_prod_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceSum",
                  .forward = widened<reduce_sum>,
                  .backward = reduce_sum_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "ReduceSumSquare",
                  .forward = widened<reduce_sum_square>,
                  .on_host = bits({1}),
                  .expects = ", list"},
    };
    return kRows;
}

}  // namespace partita::runtime
