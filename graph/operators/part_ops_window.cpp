// SPDX-License-Identifier: Apache-2.0
//
// Parts of ops with windowed dims. Each reads its halo; what the whole op pads at a border, the
// part that touches the border pads, and an interior part pads nothing.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/operators/part_builder.h"

namespace partita::graph {

PartWindow window_of(const PartBuilder& b, int operand, int dim) {
    const DimRule& rule = b.dim_rule(operand, dim);
    const Window& window = *rule.window;
    PartWindow part;
    part.outputs = b.range(rule.factors.front());
    if (part.outputs.begin >= part.outputs.end) return part;
    const std::int64_t extent = b.shape(operand)[static_cast<std::size_t>(dim)];
    part.reads = unclipped_range(window, part.outputs);
    part.inside = operand_range(window, part.outputs, extent);
    if (part.inside == Range{}) {
        part.before = part.reads.end - part.reads.begin;
        return part;
    }
    part.before = part.inside.begin - part.reads.begin;
    part.after = part.reads.end - part.inside.end;
    return part;
}

namespace {

/// Conv [(g f) ...]: a part of g has fewer groups; a part of f narrower ones.
void set_group(PartBuilder& b) {
    if (b.attributes().find("group") == nullptr) return;
    b.set_attribute("group", b.count("g", b.attributes().get_int("group", 1)));
}

std::vector<PartWindow> spatial_windows(const PartBuilder& b) {
    std::vector<PartWindow> windows;
    for (int dim = 2; dim < static_cast<int>(b.shape(0).size()); ++dim) {
        windows.push_back(window_of(b, 0, dim));
    }
    return windows;
}

void set_pads(PartBuilder& b, const std::vector<PartWindow>& windows) {
    std::vector<std::int64_t> pads;
    for (const PartWindow& window : windows) pads.push_back(window.before);
    for (const PartWindow& window : windows) pads.push_back(window.after);
    b.set_attribute("pads", std::move(pads));
    b.set_attribute("auto_pad", std::string("NOTSET"));
}

}  // namespace

void conv_part(PartBuilder& b) {
    set_group(b);
    set_pads(b, spatial_windows(b));
}

void pool_part(PartBuilder& b) {
    std::vector<PartWindow> windows = spatial_windows(b);
    // With ceil_mode the last window may hang over the padding; what hangs over is no padding,
    // which an average would count.
    const std::vector<std::int64_t> pads = b.attributes().get_ints("pads");
    const bool is_explicit = b.attributes().get_string("auto_pad", "NOTSET") == "NOTSET";
    for (std::size_t i = 0; i < windows.size(); ++i) {
        if (windows[i].inside.end != b.shape(0)[i + 2]) continue;
        const bool is_padded = is_explicit && pads.size() == 2 * windows.size();
        const std::int64_t most = is_padded     ? pads[i + windows.size()]
                                  : is_explicit ? 0
                                                : windows[i].after;
        windows[i].after = std::min(windows[i].after, most);
    }
    set_pads(b, windows);
}

// Operand position p writes outputs p*stride - pad + j*dilation. The part's first position p0 and
// first output o0 give its own padding, pad + o0 - p0*stride; what its operand does not reach at
// the end is output padding.
void conv_transpose_part(PartBuilder& b) {
    set_group(b);
    const std::size_t count = b.shape(0).size() - 2;
    std::vector<std::int64_t> dilations = b.attributes().get_ints("dilations");
    dilations.resize(count, 1);
    std::vector<std::int64_t> pads(2 * count, 0);
    std::vector<std::int64_t> extra(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
        const int dim = static_cast<int>(i) + 2;
        const Window& window = *b.dim_rule(0, dim).window;
        const PartWindow part = window_of(b, 0, dim);
        const std::int64_t stride = window.divisor;
        const std::int64_t reach = (b.shape(1)[i + 2] - 1) * dilations[i];
        const std::int64_t positions = part.inside.end - part.inside.begin;
        pads[i] = window.after + part.outputs.begin - part.inside.begin * stride;
        const std::int64_t end = (positions - 1) * stride + reach + 1 - pads[i] -
                                 (part.outputs.end - part.outputs.begin);
        pads[i + count] = std::max<std::int64_t>(end, 0);
        extra[i] = std::max<std::int64_t>(-end, 0);
    }
    b.part().attributes.erase("output_shape");
    b.set_attribute("auto_pad", std::string("NOTSET"));
    b.set_attribute("pads", std::move(pads));
    b.set_attribute("output_padding", std::move(extra));
}

// The channels of the halo are computed too, from too few neighbours, and cut off.
void lrn_part(PartBuilder& b) {
    const PartWindow window = window_of(b, 0, 1);
    b.crop(0, 1,
           {window.outputs.begin - window.inside.begin, window.outputs.end - window.inside.begin});
}

void slice_part(PartBuilder& b) {
    constexpr int kStarts = 1;
    constexpr int kEnds = 2;
    constexpr int kAxes = 3;
    auto starts = b.integers("starts", kStarts);
    auto ends = b.integers("ends", kEnds);
    if (!starts || !ends || starts->size() != ends->size()) return;
    const auto listed = b.integers("axes", kAxes);
    const std::size_t rank = b.shape(0).size();
    const Shape extents = b.extents(0);
    for (std::size_t i = 0; i < starts->size(); ++i) {
        std::int64_t axis = listed ? (*listed)[i] : static_cast<std::int64_t>(i);
        if (axis < 0) axis += static_cast<std::int64_t>(rank);
        if (b.dim_rule(0, static_cast<int>(axis)).factors.empty()) continue;  // never split
        (*starts)[i] = 0;
        (*ends)[i] = extents[static_cast<std::size_t>(axis)];
    }
    b.set_target("starts", kStarts, *std::move(starts));
    b.set_target("ends", kEnds, *std::move(ends));
}

void pad_part(PartBuilder& b) {
    constexpr int kPads = 1;
    constexpr int kAxes = 3;
    const char* name = b.attributes().find("paddings") != nullptr ? "paddings" : "pads";
    auto pads = b.integers(name, kPads);
    if (!pads) return;
    const auto listed = b.integers("axes", kAxes);
    const std::size_t count = pads->size() / 2;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t axis = listed ? (*listed)[i] : static_cast<std::int64_t>(i);
        if (axis < 0) axis += static_cast<std::int64_t>(b.shape(0).size());
        if (!b.dim_rule(0, static_cast<int>(axis)).window) continue;
        const PartWindow window = window_of(b, 0, static_cast<int>(axis));
        (*pads)[i] = window.before;
        (*pads)[i + count] = window.after;
    }
    b.set_target(name, kPads, *std::move(pads));
}

// It is a Pad at known places, which its own attributes cannot say of a part.
void center_crop_pad_part(PartBuilder& b) {
    constexpr int kPads = 1;
    const std::size_t rank = b.shape(0).size();
    std::vector<std::int64_t> pads(2 * rank, 0);
    for (std::size_t dim = 0; dim < rank; ++dim) {
        if (!b.dim_rule(0, static_cast<int>(dim)).window) continue;
        const PartWindow window = window_of(b, 0, static_cast<int>(dim));
        pads[dim] = window.before;
        pads[dim + rank] = window.after;
    }
    b.part().type = "Pad";
    b.part().attributes = {};
    b.set_target("pads", kPads, std::move(pads));
}

// Only whole multiples are windowed: n positions give k*n results, or n/k. The halo's are cut off.
void resize_part(PartBuilder& b) {
    constexpr int kSizes = 3;
    const std::size_t rank = b.shape(0).size();
    const Shape extents = b.extents(0);
    Shape made = b.result_extents(0);
    bool is_windowed = false;
    for (std::size_t i = 0; i < rank; ++i) {
        const int dim = static_cast<int>(i);
        if (!b.dim_rule(0, dim).window) continue;
        is_windowed = true;
        const Window& window = *b.dim_rule(0, dim).window;
        const PartWindow part = window_of(b, 0, dim);
        const bool is_longer = window.divisor > 1;
        made[i] = is_longer ? extents[i] * window.divisor : extents[i] / window.stride;
        const std::int64_t first =
            is_longer ? part.inside.begin * window.divisor : part.inside.begin / window.stride;
        b.crop(0, dim, {part.outputs.begin - first, part.outputs.end - first});
    }
    if (!b.has_operand(kSizes)) return;
    // What keeps the aspect ratio would choose another one for the sizes that it chose: these stay.
    const bool is_stretched =
        b.attributes().get_string("keep_aspect_ratio_policy", "stretch") == "stretch";
    if (!is_windowed && !is_stretched) return;
    std::vector<std::int64_t> axes = b.attributes().get_ints("axes");
    if (axes.empty()) {
        for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
    }
    std::vector<std::int64_t> sizes;
    for (std::int64_t axis : axes) {
        if (axis < 0) axis += static_cast<std::int64_t>(rank);
        sizes.push_back(made[static_cast<std::size_t>(axis)]);
    }
    b.set_target("sizes", kSizes, std::move(sizes));
}

}  // namespace partita::graph
