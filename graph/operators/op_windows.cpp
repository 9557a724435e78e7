// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/op_windows.h"

#include <algorithm>

#include <fmt/format.h>

namespace partita::graph {

namespace {

/// An attribute of one integer per spatial dim; absent means all `fallback`.
std::vector<std::int64_t> per_dim(RuleBuilder& b, const char* name, std::size_t count,
                                  std::int64_t fallback) {
    std::vector<std::int64_t> values = b.op().attributes.get_ints(name);
    if (values.empty()) values.assign(count, fallback);
    const bool positive = std::all_of(values.begin(), values.end(), [](auto v) { return v >= 1; });
    if (values.size() != count || !positive) {
        b.fail(fmt::format("attribute '{}': expected {} integers >= 1, got [{}]", name, count,
                           fmt::join(values, ", ")));
    }
    return values;
}

std::int64_t reach(const SpatialWindow& window) {
    return checked_product(window.kernel - 1, window.dilation);
}

/// More than any extent; what is padded beyond it makes no difference.
constexpr Int128 kFarthest = Int128{1} << 55;

/// Padding at the beginning so that `shorter` outputs of the stride cover `longer` positions.
std::int64_t same_padding(const SpatialWindow& window, std::int64_t longer, std::int64_t shorter,
                          bool is_upper) {
    const Int128 needed = Int128{shorter - 1} * window.stride + reach(window) + 1 - longer;
    const auto total = static_cast<std::int64_t>(std::clamp<Int128>(needed, 0, kFarthest));
    return is_upper ? total / 2 : total - total / 2;
}

bool is_same(const std::string& auto_pad) {
    return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
}

}  // namespace

std::string spatial_name(int index, int count) {
    constexpr const char* kNames[] = {"d", "h", "w"};
    if (count <= 3) return kNames[3 - count + index];
    return numbered('s', index);
}

std::vector<SpatialWindow> window_attributes(RuleBuilder& b, const Shape& kernel) {
    const std::size_t count = kernel.size();
    const auto strides = per_dim(b, "strides", count, 1);
    const auto dilations = per_dim(b, "dilations", count, 1);
    std::vector<std::int64_t> pads = b.op().attributes.get_ints("pads");
    const std::string auto_pad = b.op().attributes.get_string("auto_pad", "NOTSET");
    if (pads.empty() || auto_pad != "NOTSET") pads.assign(2 * count, 0);
    if (pads.size() != 2 * count) {
        b.fail(fmt::format("attribute 'pads': expected {} integers, got [{}]", 2 * count,
                           fmt::join(pads, ", ")));
    }
    std::vector<SpatialWindow> windows;
    for (std::size_t i = 0; i < count; ++i) {
        windows.push_back({.kernel = kernel[i],
                           .stride = strides[i],
                           .dilation = dilations[i],
                           .pad_begin = pads[i]});
    }
    return windows;
}

void set_windows(RuleBuilder& b, int operand, const std::vector<int>& factors,
                 const std::vector<SpatialWindow>& windows) {
    const std::string auto_pad = b.op().attributes.get_string("auto_pad", "NOTSET");
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const SpatialWindow& window = windows[i];
        const std::int64_t extent = b.shape(operand)[i + 2];
        const std::int64_t outputs = b.factor(factors[i]).extent;
        const std::int64_t pad =
            is_same(auto_pad) ? same_padding(window, extent, outputs, auto_pad == "SAME_UPPER")
                              : window.pad_begin;
        b.window(operand, static_cast<int>(i + 2), factors[i],
                 {.stride = window.stride, .before = pad, .after = reach(window) - pad});
    }
}

void set_transposed_windows(RuleBuilder& b, int operand, const std::vector<int>& factors,
                            const std::vector<SpatialWindow>& windows) {
    const std::string auto_pad = b.op().attributes.get_string("auto_pad", "NOTSET");
    const bool fits_output =
        is_same(auto_pad) || !b.op().attributes.get_ints("output_shape").empty();
    std::vector<std::int64_t> extra = b.op().attributes.get_ints("output_padding");
    extra.resize(windows.size(), 0);
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const SpatialWindow& window = windows[i];
        const std::int64_t extent = b.shape(operand)[i + 2];
        const std::int64_t outputs = b.factor(factors[i]).extent;
        std::int64_t pad = window.pad_begin;
        if (fits_output) {
            pad = same_padding(window, outputs - extra[i], extent, auto_pad == "SAME_UPPER");
        }
        // p*stride lies in [i + pad - reach, i + pad]; the lower end is rounded up. A kernel
        // shorter than the stride leaves outputs that read nothing: they get the position before,
        // so that no part's padding is negative; nor may a part of mere output padding read
        // nothing.
        const std::int64_t widest = std::max(reach(window), window.stride - 1);
        const std::int64_t before = std::max(widest - pad - (window.stride - 1),
                                             outputs - checked_product(extent, window.stride));
        b.window(operand, static_cast<int>(i + 2), factors[i],
                 {.stride = 1, .before = before, .after = pad, .divisor = window.stride});
    }
}

}  // namespace partita::graph
