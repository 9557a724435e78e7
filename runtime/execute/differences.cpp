// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/differences.h"

#include <algorithm>
#include <limits>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

at::Tensor exact(const graph::HostTensor& tensor) {
    return to_aten(tensor).to(at::kDouble);
}

double magnitude_of(const at::Tensor& tensor) {
    if (tensor.numel() == 0) return 0.0;
    return at::max(at::abs(tensor).masked_fill(at::isfinite(tensor).logical_not(), 0.0))
        .item<double>();
}

/// Where both are the same special value there is no difference.
double largest_gap(const at::Tensor& a, const at::Tensor& b) {
    if (b.numel() == 0) return 0.0;
    const at::Tensor same = at::eq(a, b).logical_or(at::isnan(a).logical_and(at::isnan(b)));
    const double gap = at::max(at::abs(a - b).masked_fill(same, 0.0)).item<double>();
    return gap < kNever ? gap : kNever;
}

}  // namespace

double tolerance_of(graph::DType dtype) {
    switch (dtype) {
    case graph::DType::float64: return 1e-9;
    case graph::DType::float32:
    case graph::DType::complex64: return 1e-3;
    case graph::DType::float16: return 2e-2;
    case graph::DType::bfloat16: return 1e-1;
    default: return graph::is_floating_point(dtype) ? 0.5 : 0.0;
    }
}

double gradient_tolerance_of(graph::DType dtype) {
    return 10.0 * tolerance_of(dtype);
}

double update_tolerance_of(graph::DType dtype) {
    return std::min(0.5, gradient_tolerance_of(dtype));
}

std::vector<Difference> differences(const std::string& kind,
                                    const std::vector<graph::HostTensor>& actual,
                                    const std::vector<graph::HostTensor>& expected) {
    double most = 0.0;
    for (const graph::HostTensor& tensor : expected) {
        most = std::max(most, magnitude_of(exact(tensor)));
    }
    constexpr double kLeastShare = 1e-3;
    std::vector<Difference> all;
    for (const graph::HostTensor& tensor : expected) {
        const auto found = std::ranges::find_if(
            actual, [&](const graph::HostTensor& each) { return each.name == tensor.name; });
        Difference difference{.what = kind + " '" + tensor.name + "'",
                              .absolute = kNever,
                              .relative = kNever,
                              .tolerance = tolerance_of(tensor.dtype)};
        if (found != actual.end() && found->shape == tensor.shape) {
            const at::Tensor should = exact(tensor);
            difference.tolerance = std::max(difference.tolerance, tolerance_of(found->dtype));
            difference.absolute = largest_gap(exact(*found), should);
            const double scale = std::max(magnitude_of(should), most * kLeastShare);
            if (difference.absolute == 0.0 || scale > 0.0) {
                difference.relative =
                    difference.absolute == 0.0 ? 0.0 : difference.absolute / scale;
            }
        }
        all.push_back(std::move(difference));
    }
    return all;
}

}  // namespace partita::runtime
