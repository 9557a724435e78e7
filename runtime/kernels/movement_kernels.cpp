// SPDX-License-Identifier: Apache-2.0
//
// Elements joined, cut, padded, reversed: all keep their values and change their places.
#include <algorithm>
#include <array>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/carried.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t extent_of(const graph::Shape& shape, std::int64_t dim) {
    return shape[static_cast<std::size_t>(dim)];
}

// --- Concat, Split -----------------------------------------------------------------------------

/// Opset 1 to 3 may leave it out.
std::int64_t concat_axis(const KernelCall& call, std::int64_t rank) {
    return c10::maybe_wrap_dim(call.integer("axis", 1), rank);
}

Tensors concat(const KernelCall& call) {
    return {at::cat(Tensors(call.operands.begin(), call.operands.end()),
                    concat_axis(call, call.operand(0).dim()))};
}

Tensors concat_backward(const BackwardCall& call) {
    const at::Tensor& gradient = call.gradients[0];
    const std::int64_t axis = concat_axis(call, gradient.dim());
    Tensors gradients;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < call.operand_shapes.size(); ++i) {
        const std::int64_t extent = extent_of(call.operand_shapes[i], axis);
        gradients.push_back(call.wants(i) ? gradient.narrow(axis, begin, extent) : at::Tensor());
        begin += extent;
    }
    return gradients;
}

/// Extents of the results, whether they are wanted or not.
Ints split_sizes(const KernelCall& call, std::int64_t extent) {
    Ints sizes = call.integers_of(1, "split");
    if (!sizes.empty()) return sizes;
    const auto count = static_cast<std::int64_t>(call.op.results.size());
    const std::int64_t parts = call.integer("num_outputs", count);
    const std::int64_t each = (extent + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) {
        sizes.push_back(std::clamp<std::int64_t>(extent - i * each, 0, each));
    }
    return sizes;
}

Tensors split(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t axis = c10::maybe_wrap_dim(call.integer("axis", 0), data.dim());
    return at::split_with_sizes(data, split_sizes(call, data.size(axis)), axis);
}

Tensors split_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const std::int64_t axis =
        c10::maybe_wrap_dim(call.integer("axis", 0), static_cast<std::int64_t>(shape.size()));
    const Ints sizes = split_sizes(call, extent_of(shape, axis));
    const auto given = std::ranges::find_if(call.gradients, &at::Tensor::defined);
    Tensors gradients(call.gradients.begin(), call.gradients.end());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].defined()) continue;
        graph::Shape missing = shape;
        missing[static_cast<std::size_t>(axis)] = sizes[i];
        gradients[i] = at::zeros(missing, given->options());
    }
    return only_first(call, at::cat(gradients, axis));
}

// --- Slice -------------------------------------------------------------------------------------

struct Cut {
    std::int64_t axis = 0;
    std::int64_t first = 0;  ///< of the positions taken, in rising order
    std::int64_t end = 0;
    std::int64_t step = 1;  ///< >= 1
    bool is_reversed = false;
};

/// Positions start, start + step, ... before `end`, which may lie outside of the extent.
Cut cut_of(std::int64_t axis, std::int64_t extent, std::int64_t start, std::int64_t end,
           std::int64_t step) {
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    if (step > 0) {
        start = std::clamp<std::int64_t>(start, 0, extent);
        end = std::clamp<std::int64_t>(end, start, extent);
        return {.axis = axis, .first = start, .end = end, .step = std::min(step, extent + 1)};
    }
    start = std::clamp<std::int64_t>(start, -1, extent - 1);
    end = std::clamp<std::int64_t>(end, -1, start);
    const std::int64_t stride = step < -extent ? extent + 1 : -step;
    const std::int64_t count = (start - end + stride - 1) / stride;
    if (count == 0) return {.axis = axis};
    return {.axis = axis,
            .first = start - (count - 1) * stride,
            .end = start + 1,
            .step = stride,
            .is_reversed = true};
}

std::vector<Cut> cuts_of(const KernelCall& call, at::IntArrayRef sizes) {
    const Ints starts = call.integers_of(1, "starts");
    const Ints ends = call.integers_of(2, "ends");
    const Ints axes = call.integers_of(3, "axes");
    const Ints steps = call.integers(4);
    const auto rank = static_cast<std::int64_t>(sizes.size());
    const auto has_all = [&](const Ints& list) { return list.size() == starts.size(); };
    expect(has_all(ends) && (axes.empty() || has_all(axes)) && (steps.empty() || has_all(steps)),
           "starts, ends, axes and steps: expected as many of each");
    expect(std::ranges::count(steps, 0) == 0, "steps: expected none of 0");
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t axis =
            c10::maybe_wrap_dim(axes.empty() ? static_cast<std::int64_t>(i) : axes[i], rank);
        cuts.push_back(cut_of(axis, sizes[static_cast<std::size_t>(axis)], starts[i], ends[i],
                              steps.empty() ? 1 : steps[i]));
    }
    return cuts;
}

/// A view of what the cuts take, in rising order, and the dims that are to be reversed.
at::Tensor cut(at::Tensor data, const std::vector<Cut>& cuts) {
    for (const Cut& each : cuts) data = data.slice(each.axis, each.first, each.end, each.step);
    return data;
}

Ints reversed_dims(const std::vector<Cut>& cuts) {
    Ints dims;
    for (const Cut& each : cuts) {
        if (each.is_reversed) dims.push_back(each.axis);
    }
    return dims;
}

Tensors slice(const KernelCall& call) {
    const std::vector<Cut> cuts = cuts_of(call, call.operand(0).sizes());
    const Ints reversed = reversed_dims(cuts);
    const at::Tensor taken = cut(call.operand(0), cuts);
    return {reversed.empty() ? taken : taken.flip(reversed)};
}

Tensors slice_backward(const BackwardCall& call) {
    const std::vector<Cut> cuts = cuts_of(call, call.operand_shapes[0]);
    const Ints reversed = reversed_dims(cuts);
    const at::Tensor& given = call.gradients[0];
    const at::Tensor gradient = at::zeros(call.operand_shapes[0], given.options());
    cut(gradient, cuts).copy_(reversed.empty() ? given : given.flip(reversed));
    return only_first(call, gradient);
}

// --- Pad ---------------------------------------------------------------------------------------

/// Positions added before and after each dim; negative: cut off.
struct Padding {
    Ints before;
    Ints after;
};

Padding padding_of(const KernelCall& call, std::int64_t rank) {
    const bool is_first_opset = call.op.attributes.find("paddings") != nullptr;
    const Ints pads = call.integers_of(1, is_first_opset ? "paddings" : "pads");
    const Ints axes = call.integers(3);
    const std::size_t count = pads.size() / 2;
    expect(pads.size() % 2 == 0 &&
               count == (axes.empty() ? static_cast<std::size_t>(rank) : axes.size()),
           "pads: expected a begin and an end for each axis");
    Padding padding{Ints(static_cast<std::size_t>(rank), 0),
                    Ints(static_cast<std::size_t>(rank), 0)};
    for (std::size_t i = 0; i < count; ++i) {
        const auto dim = static_cast<std::size_t>(
            c10::maybe_wrap_dim(axes.empty() ? static_cast<std::int64_t>(i) : axes[i], rank));
        padding.before[dim] = pads[i];
        padding.after[dim] = pads[i + count];
    }
    return padding;
}

/// As ATen lists them: last dim first.
Ints listed(const Padding& padding, std::int64_t sign) {
    Ints pads;
    for (std::size_t dim = padding.before.size(); dim-- > 0;) {
        pads.push_back(sign * padding.before[dim]);
        pads.push_back(sign * padding.after[dim]);
    }
    return pads;
}

/// The position that a padded position shows, in a dim of `extent` of which the middle is kept.
std::int64_t shown(std::int64_t position, std::int64_t extent, const std::string& mode) {
    if (extent == 1 || mode == "edge") return std::clamp<std::int64_t>(position, 0, extent - 1);
    const std::int64_t period = mode == "wrap" ? extent : 2 * (extent - 1);
    const std::int64_t at = ((position % period) + period) % period;
    return at < extent ? at : period - at;
}

/// Per position of the padded dim the operand's; undefined when nothing is padded.
at::Tensor shown_positions(const KernelCall& call, const Padding& padding, std::size_t dim,
                           std::int64_t extent) {
    if (padding.before[dim] == 0 && padding.after[dim] == 0) return {};
    const std::int64_t skipped = std::max<std::int64_t>(-padding.before[dim], 0);
    const std::int64_t kept = extent - skipped - std::max<std::int64_t>(-padding.after[dim], 0);
    const std::string mode = call.text("mode", "constant");
    expect(kept > 0, "a dim without positions is padded by none of its own");
    Ints positions;
    const std::int64_t begin = -std::max<std::int64_t>(padding.before[dim], 0);
    const std::int64_t end = kept + std::max<std::int64_t>(padding.after[dim], 0);
    positions.reserve(static_cast<std::size_t>(std::max<std::int64_t>(end - begin, 0)));
    for (std::int64_t p = begin; p < end; ++p) positions.push_back(skipped + shown(p, kept, mode));
    return call.sent(at::tensor(positions, at::kLong));
}

at::Scalar pad_value(const KernelCall& call) {
    return call.has(2) ? call.operand(2).item() : at::Scalar(call.real("value", 0.0));
}

Tensors pad(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const Padding padding = padding_of(call, data.dim());
    if (call.text("mode", "constant") == "constant") {
        return {at::constant_pad_nd(data, listed(padding, 1), pad_value(call))};
    }
    at::Tensor result = data;
    for (std::size_t dim = 0; dim < padding.before.size(); ++dim) {
        const auto axis = static_cast<std::int64_t>(dim);
        const at::Tensor positions = shown_positions(call, padding, dim, data.size(axis));
        if (positions.defined()) result = result.index_select(axis, positions);
    }
    return {result};
}

Tensors pad_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    at::Tensor gradient = call.gradients[0];
    const Padding padding = padding_of(call, gradient.dim());
    if (call.text("mode", "constant") == "constant") {
        return only_first(call, at::constant_pad_nd(gradient, listed(padding, -1), 0));
    }
    for (std::size_t dim = padding.before.size(); dim-- > 0;) {
        const at::Tensor positions = shown_positions(call, padding, dim, shape[dim]);
        if (!positions.defined()) continue;
        graph::Shape folded = gradient.sizes().vec();
        folded[dim] = shape[dim];
        gradient = at::zeros(folded, gradient.options())
                       .index_add(static_cast<std::int64_t>(dim), positions, gradient);
    }
    return only_first(call, gradient);
}

// A crop of an odd number cuts the middle's surplus position at the end, a padding adds it there.
Tensors center_crop_pad(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const Ints target = call.integers(1);
    const Ints axes = call.op.attributes.get_ints("axes");
    const auto rank = static_cast<std::size_t>(data.dim());
    expect(target.size() == (axes.empty() ? rank : axes.size()),
           "operand 1: expected an extent for each axis");
    Padding padding{Ints(rank, 0), Ints(rank, 0)};
    for (std::size_t i = 0; i < target.size(); ++i) {
        const std::int64_t axis =
            axes.empty() ? static_cast<std::int64_t>(i) : c10::maybe_wrap_dim(axes[i], data.dim());
        const std::int64_t more = target[i] - data.size(axis);
        padding.before[static_cast<std::size_t>(axis)] = more / 2;
        padding.after[static_cast<std::size_t>(axis)] = more - more / 2;
    }
    return {at::constant_pad_nd(data, listed(padding, 1), 0)};
}

// --- others ------------------------------------------------------------------------------------

Tensors trilu(const KernelCall& call) {
    // Diagonals beyond every matrix are all one.
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const std::int64_t k =
        call.has(1) ? std::clamp(call.integers(1).front(), -kFar, kFar) : std::int64_t{0};
    const at::Tensor& data = call.operand(0);
    return {call.integer("upper", 1) != 0 ? data.triu(k) : data.tril(k)};
}

Tensors reverse_sequence(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t time_axis = call.integer("time_axis", 0);
    const std::int64_t batch_axis = call.integer("batch_axis", 1);
    const at::Tensor steps = at::arange(data.size(time_axis), data.options().dtype(at::kLong));
    const at::Tensor lengths = call.operand(1).to(data.device(), at::kLong).unsqueeze(1);
    // [batch time], then as the data has them.
    at::Tensor from = at::where(steps < lengths, lengths - 1 - steps, steps);
    if (time_axis < batch_axis) from = from.t();
    for (std::int64_t dim = 2; dim < data.dim(); ++dim) from = from.unsqueeze(-1);
    return {data.gather(time_axis, from.expand(data.sizes()))};
}

Tensors compress(const KernelCall& call) {
    const bool has_axis = call.op.attributes.find("axis") != nullptr;
    const at::Tensor data = has_axis ? call.operand(0) : call.operand(0).reshape(-1);
    const at::Tensor taken = call.operand(1).to(data.device()).nonzero().reshape(-1);
    return {data.index_select(has_axis ? call.integer("axis", 0) : 0, taken)};
}

}  // namespace

std::span<const KernelRow> movement_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "CenterCropPad",
                  .forward = any_type<center_crop_pad>,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "Compress", .forward = any_type<compress>},
        KernelRow{.type = "Concat", .forward = any_type<concat>, .backward = concat_backward},
        KernelRow{.type = "Pad",
                  .forward = any_type<pad>,
                  .backward = pad_backward,
                  .on_host = bits({1, 2, 3}),
                  .expects = ", list, one, list"},
        KernelRow{.type = "ReverseSequence", .forward = any_type<reverse_sequence>},
        KernelRow{.type = "Slice",
                  .forward = any_type<slice>,
                  .backward = slice_backward,
                  .on_host = bits({1, 2, 3, 4}),
                  .expects = ", #s, #s, #s, #s"},
        KernelRow{.type = "Split",
                  .forward = any_type<split>,
                  .backward = split_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{
            .type = "Trilu", .forward = any_type<trilu>, .on_host = bits({1}), .expects = ", one"},
    };
    return kRows;
}

}  // namespace partita::runtime
