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

/// Where both are the same special value there is no difference.
Difference difference_of(const graph::HostTensor& actual, const graph::HostTensor& expected) {
    Difference found;
    const at::Tensor a = to_aten(actual).to(at::kDouble);
    const at::Tensor b = to_aten(expected).to(at::kDouble);
    if (b.numel() == 0) return found;
    const at::Tensor same = at::eq(a, b).logical_or(at::isnan(a).logical_and(at::isnan(b)));
    const at::Tensor apart = at::abs(a - b).masked_fill(same, 0.0);
    found.absolute = at::max(apart).item<double>();
    const at::Tensor finite = at::abs(b).masked_fill(at::isfinite(b).logical_not(), 0.0);
    const double scale = at::max(finite).item<double>();
    const bool is_number = found.absolute == found.absolute && found.absolute < kNever;
    if (!is_number) found.absolute = kNever;
    found.relative = found.absolute == 0.0 ? 0.0 : scale > 0.0 ? found.absolute / scale : kNever;
    return found;
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

std::vector<Difference> differences(const std::string& kind,
                                    const std::vector<graph::HostTensor>& actual,
                                    const std::vector<graph::HostTensor>& expected) {
    std::vector<Difference> all;
    for (const graph::HostTensor& tensor : expected) {
        const auto found = std::ranges::find_if(
            actual, [&](const graph::HostTensor& each) { return each.name == tensor.name; });
        Difference difference{.what = {}, .absolute = kNever, .relative = kNever};
        if (found != actual.end() && found->shape == tensor.shape) {
            difference = difference_of(*found, tensor);
        }
        difference.what = kind + " '" + tensor.name + "'";
        difference.tolerance = tolerance_of(tensor.dtype);
        all.push_back(std::move(difference));
    }
    return all;
}

}  // namespace partita::runtime
