// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/windows.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

namespace partita::runtime {

namespace {

bool is_zero(const graph::Shape& numbers) {
    return std::ranges::all_of(numbers, [](std::int64_t number) { return number == 0; });
}

}  // namespace

bool Windows::is_dilated() const {
    return std::ranges::any_of(dilations, [](std::int64_t dilation) { return dilation != 1; });
}

bool Windows::may_pad_alike(at::IntArrayRef data, at::IntArrayRef outputs) const {
    for (std::size_t i = 0; i < rank(); ++i) {
        const std::int64_t spare = data[i] + 2 * before[i] - reach(i, outputs[i]);
        if (before[i] < 0 || spare < 0 || spare >= strides[i]) return false;
    }
    return true;
}

Windows windows_of(const KernelCall& call, const graph::Shape& kernel) {
    Windows windows;
    windows.kernel = kernel.empty() ? call.op.attributes.get_ints("kernel_shape") : kernel;
    const std::size_t rank = windows.kernel.size();
    windows.strides = call.op.attributes.get_ints("strides");
    windows.strides.resize(rank, 1);
    windows.dilations = call.op.attributes.get_ints("dilations");
    windows.dilations.resize(rank, 1);
    graph::Shape pads = call.op.attributes.get_ints("pads");
    pads.resize(2 * rank, 0);
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
    windows.before.assign(pads.begin(), middle);
    windows.after.assign(middle, pads.end());
    return windows;
}

at::Tensor padded(const at::Tensor& x, const graph::Shape& before, const graph::Shape& after,
                  double value) {
    if (is_zero(before) && is_zero(after)) return x;
    graph::Shape pads;  // ATen begins with the last dim
    for (std::size_t i = before.size(); i-- > 0;) {
        pads.push_back(before[i]);
        pads.push_back(after[i]);
    }
    return at::constant_pad_nd(x, pads, value);
}

}  // namespace partita::runtime
