// SPDX-License-Identifier: Apache-2.0
//
// Ops that move elements without computing: Transpose, Slice, Pad, Concat, Split, Tile,
// DepthToSpace and SpaceToDepth. All are linear. Reshape has a file of its own.
#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "graph/operators/op_rules.h"

namespace partita::graph {

OpRule transpose_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    std::vector<std::int64_t> order = op.attributes.get_ints("perm");
    if (order.empty()) {
        for (int i = rank; i-- > 0;) order.push_back(i);
    }
    if (static_cast<int>(order.size()) != rank)
        b.fail("attribute 'perm': expected one entry per dim");
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int i = 0; i < rank; ++i) {
        const int from = b.axis(order[std::size_t(i)], rank);
        b.operand(0, from, {dims[std::size_t(from)]});
        b.result(0, i, {dims[std::size_t(from)]});
    }
    return b.finish();
}

namespace {

/// Dims that results copy position by position; the others are made by the caller.
void copy_dim(RuleBuilder& b, int dim) {
    const int factor = b.add(numbered('d', dim), b.result_shape(0)[std::size_t(dim)]);
    b.operand(0, dim, {factor});
    b.result(0, dim, {factor});
}

/// Result position i is operand position i*step + shift.
void shift_dim(RuleBuilder& b, int dim, std::int64_t step, std::int64_t shift) {
    const int factor = b.add(numbered('d', dim), b.result_shape(0)[std::size_t(dim)]);
    b.window(0, dim, factor, {.stride = step, .before = -shift, .after = shift});
    b.result(0, dim, {factor});
}

/// The axes that an attribute or operand lists, by default the first `count`.
std::optional<std::vector<std::int64_t>> listed_axes(RuleBuilder& b, int operand,
                                                     std::size_t count) {
    if (b.op().attributes.find("axes") != nullptr || b.has_operand(operand)) {
        return b.integers("axes", operand);
    }
    std::vector<std::int64_t> axes(count);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
}

}  // namespace

// Sliced dims are windows that start later; backwards ones (step < 0) are never split.
OpRule slice_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    constexpr int kStarts = 1;
    constexpr int kEnds = 2;
    constexpr int kAxes = 3;
    constexpr int kSteps = 4;
    const int rank = b.rank(0);
    if (b.result_rank(0) != rank) b.fail("result 0: expected as many dims as operand 0");
    const auto starts = b.integers("starts", kStarts);
    const auto axes = listed_axes(b, kAxes, starts ? starts->size() : 0);
    const auto steps = b.has_operand(kSteps)
                           ? b.integers(kSteps)
                           : std::vector<std::int64_t>(starts ? starts->size() : 0, 1);
    // Which dims are sliced, and how, is not known while planning.
    if (!starts || !b.integers("ends", kEnds) || !axes || !steps ||
        axes->size() != starts->size() || steps->size() != starts->size()) {
        return b.finish();
    }
    struct Part {
        std::int64_t start = 0;
        std::int64_t step = 1;
    };
    std::vector<Part> parts(static_cast<std::size_t>(rank));
    for (std::size_t i = 0; i < axes->size(); ++i) {
        const std::size_t dim = static_cast<std::size_t>(b.axis((*axes)[i], rank));
        const std::int64_t extent = b.shape(0)[dim];
        const std::int64_t start = (*starts)[i] + ((*starts)[i] < 0 ? extent : 0);
        parts[dim] = {std::clamp<std::int64_t>(start, 0, extent), (*steps)[i]};
    }
    for (int dim = 0; dim < rank; ++dim) {
        const Part& part = parts[std::size_t(dim)];
        const bool is_whole = b.result_shape(0)[std::size_t(dim)] == b.shape(0)[std::size_t(dim)];
        if (is_whole && part.start == 0 && part.step == 1) {
            copy_dim(b, dim);
        } else if (part.step > 0) {
            shift_dim(b, dim, part.step, part.start);
        }
    }
    return b.finish();
}

// Dims padded with a constant are windows that begin before the operand does; the other modes read
// elements from elsewhere, so the dims they pad are never split.
OpRule pad_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    constexpr int kPads = 1;
    constexpr int kValue = 2;
    constexpr int kAxes = 3;
    const int rank = b.rank(0);
    if (b.result_rank(0) != rank) b.fail("result 0: expected as many dims as operand 0");
    const auto pads =
        b.integers(op.attributes.find("paddings") != nullptr ? "paddings" : "pads", kPads);
    const auto axes = listed_axes(b, kAxes, static_cast<std::size_t>(rank));
    if (!pads || !axes || pads->size() != 2 * axes->size()) return b.finish();

    const bool is_constant = op.attributes.get_string("mode", "constant") == "constant";
    std::vector<std::int64_t> begins(static_cast<std::size_t>(rank), 0);
    std::vector<bool> is_padded(static_cast<std::size_t>(rank), false);
    for (std::size_t i = 0; i < axes->size(); ++i) {
        const std::size_t dim = static_cast<std::size_t>(b.axis((*axes)[i], rank));
        constexpr std::int64_t kFarthest = std::int64_t{1} << 55;  // more than any extent
        if ((*pads)[i] < -kFarthest || (*pads)[i] > kFarthest) {
            b.fail(
                fmt::format("padding of dim {}: expected at most 2^55, got {}", dim, (*pads)[i]));
        }
        begins[dim] = (*pads)[i];
        is_padded[dim] = (*pads)[i] != 0 || (*pads)[i + axes->size()] != 0;
    }
    for (int dim = 0; dim < rank; ++dim) {
        if (!is_padded[std::size_t(dim)]) {
            copy_dim(b, dim);
        } else if (is_constant) {
            shift_dim(b, dim, 1, -begins[std::size_t(dim)]);
        }
    }
    OpRule rule = b.finish();
    // Zeros keep it linear; any other padding is added by every part of a sum.
    const auto value = b.integers(kValue);
    const bool pads_zero = b.has_operand(kValue) ? value && *value == std::vector<std::int64_t>{0}
                                                 : op.attributes.get_float("value", 0.0) == 0.0;
    rule.operands[0].linear = !is_constant || pads_zero;
    return rule;
}

// The concatenated dim is (part f) when all operands have the same extent f, else it is never
// split.
OpRule concat_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.result_rank(0);
    const int axis = b.axis(op.attributes.get_int("axis", 1), rank);  // opset 1-3: 1 by default
    for (int i = 0; i < b.operand_count(); ++i) b.expect_rank(i, rank);
    bool is_even = true;
    const auto extent_of = [&](int i) { return b.shape(i)[std::size_t(axis)]; };
    for (int i = 1; i < b.operand_count(); ++i) is_even &= extent_of(i) == extent_of(0);
    for (int dim = 0; dim < rank; ++dim) {
        if (dim == axis && !is_even) continue;
        const std::string name = numbered('d', dim);
        if (dim != axis) {
            const int factor = b.add(name, b.result_shape(0)[std::size_t(dim)]);
            for (int i = 0; i < b.operand_count(); ++i) b.operand(i, dim, {factor});
            b.result(0, dim, {factor});
            continue;
        }
        const int part = b.add("part", b.operand_count(), /*splittable=*/false);
        const int factor = b.add(name, extent_of(0));
        for (int i = 0; i < b.operand_count(); ++i) b.operand(i, dim, {factor});
        b.result(0, dim, {part, factor});
    }
    return b.finish();
}

// The mirror image of Concat: the split dim is (part f) when all results have the extent f.
OpRule split_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int axis = b.axis(op.attributes.get_int("axis", 0), rank);
    if (b.result_count() == 0) b.fail("expected a result");
    std::vector<int> results;  // those that are wanted
    for (int i = 0; i < b.result_count(); ++i) {
        if (b.has_result(i)) results.push_back(i);
    }
    const std::int64_t total = b.shape(0)[std::size_t(axis)];
    const std::int64_t each = total / b.result_count();
    bool is_even = each * b.result_count() == total;
    for (const int i : results) {
        b.expect_result_rank(i, rank);
        is_even &= b.result_shape(i)[std::size_t(axis)] == each;
    }
    for (int dim = 0; dim < rank; ++dim) {
        if (dim == axis && !is_even) continue;
        const int part = dim == axis ? b.add("part", b.result_count(), /*splittable=*/false) : -1;
        const int factor =
            b.add(numbered('d', dim), dim == axis ? each : b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, dim == axis ? std::vector{part, factor} : std::vector{factor});
        for (const int i : results) b.result(i, dim, {factor});
    }
    return b.finish();
}

// Result dim = (repeat d).
OpRule tile_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const Shape& from = b.shape(0);
    const Shape& to = b.result_shape(0);
    if (from.size() != to.size()) b.fail("result 0: expected as many dims as operand 0");
    for (std::size_t dim = 0; dim < from.size(); ++dim) {
        const std::int64_t repeats = from[dim] == 0 ? 1 : to[dim] / from[dim];
        const int factor = b.add(numbered('d', dim), from[dim]);
        std::vector<int> factors{factor};
        if (repeats != 1) factors = {b.add(numbered('r', dim), repeats), factor};
        b.operand(0, static_cast<int>(dim), {factor});
        b.result(0, static_cast<int>(dim), factors);
    }
    return b.finish();
}

namespace {

/// The factors of DepthToSpace; SpaceToDepth has them too, with operand and result exchanged:
///
///     DCR  "n (x y c) h w -> n c (h x) (w y)"      CRD  "n (c x y) h w -> n c (h x) (w y)"
struct BlockFactors {
    std::vector<int> deep[4];
    std::vector<int> wide[4];
};

BlockFactors add_block_factors(RuleBuilder& b, const Shape& deep) {
    const std::int64_t block = b.op().attributes.get_int("blocksize", 1);
    if (deep.size() != 4 || block < 1 || deep[1] % block != 0 || deep[1] / block % block != 0) {
        b.fail("attribute 'blocksize': expected its square to divide the channels");
    }
    const int n = b.add("n", deep[0]);
    const int c = b.add("c", deep[1] / block / block);
    const int h = b.add("h", deep[2]);
    const int w = b.add("w", deep[3]);
    const int x = b.add("x", block, /*splittable=*/false);
    const int y = b.add("y", block, /*splittable=*/false);
    const bool column_first = b.op().attributes.get_string("mode", "DCR") == "CRD";
    return {.deep = {{n}, column_first ? std::vector{c, x, y} : std::vector{x, y, c}, {h}, {w}},
            .wide = {{n}, {c}, {h, x}, {w, y}}};
}

}  // namespace

OpRule depth_to_space_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const BlockFactors factors = add_block_factors(b, b.shape(0));
    for (int dim = 0; dim < 4; ++dim) {
        b.operand(0, dim, factors.deep[dim]);
        b.result(0, dim, factors.wide[dim]);
    }
    return b.finish();
}

OpRule space_to_depth_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const BlockFactors factors = add_block_factors(b, b.result_shape(0));
    for (int dim = 0; dim < 4; ++dim) {
        b.operand(0, dim, factors.wide[dim]);
        b.result(0, dim, factors.deep[dim]);
    }
    return b.finish();
}

}  // namespace partita::graph
