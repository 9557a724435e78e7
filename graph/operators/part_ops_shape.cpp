// SPDX-License-Identifier: Apache-2.0
//
// Parts of ops that are told the shape of their result: they get the shape of the part's.
#include <utility>
#include <vector>

#include "graph/operators/part_builder.h"

namespace partita::graph {

// Reshape, Expand.
void reshape_part(PartBuilder& b) {
    constexpr int kTarget = 1;
    b.set_target("shape", kTarget, b.result_extents(0));
}

// Without axes it drops every dim of 1, and a part has more of these than the whole.
void squeeze_part(PartBuilder& b) {
    constexpr int kAxes = 1;
    if (b.attributes().find("axes") != nullptr || b.has_operand(kAxes)) return;
    std::vector<std::int64_t> axes;
    for (std::size_t dim = 0; dim < b.shape(0).size(); ++dim) {
        if (b.shape(0)[dim] == 1) axes.push_back(static_cast<std::int64_t>(dim));
    }
    constexpr int kFirstWithOperand = 13;
    if (b.op().opset > 0 && b.op().opset < kFirstWithOperand) {
        b.set_attribute("axes", std::move(axes));
    } else {
        b.set_target("axes", kAxes, std::move(axes));
    }
}

void tile_part(PartBuilder& b) {
    constexpr int kRepeats = 1;
    const Shape from = b.extents(0);
    const Shape to = b.result_extents(0);
    std::vector<std::int64_t> repeats;
    for (std::size_t i = 0; i < from.size(); ++i) {
        repeats.push_back(from[i] == 0 ? 1 : to[i] / from[i]);
    }
    b.set_target("repeats", kRepeats, std::move(repeats));
}

void split_part(PartBuilder& b) {
    constexpr int kSizes = 1;
    if (b.attributes().find("split") == nullptr && !b.has_operand(kSizes)) return;
    const auto rank = static_cast<std::int64_t>(b.shape(0).size());
    std::int64_t axis = b.attributes().get_int("axis", 0);
    if (axis < 0) axis += rank;
    if (b.dim_rule(0, static_cast<int>(axis)).factors.empty()) return;  // of uneven sizes
    const std::int64_t size = b.count(
        b.rule()
            .factors[static_cast<std::size_t>(b.dim_rule(0, static_cast<int>(axis)).factors.back())]
            .name);
    b.set_target("split", kSizes, std::vector<std::int64_t>(b.op().outputs.size(), size));
}

// RandomNormal, RandomUniform: the attribute.
void shape_part(PartBuilder& b) {
    b.set_attribute("shape", b.result_extents(0));
}

void constant_of_shape_part(PartBuilder& b) {
    b.set_target("shape", 0, b.result_extents(0));
}

// size [n c h w] -> grid [n h w 2]; c plays no role.
void affine_grid_part(PartBuilder& b) {
    constexpr int kSize = 1;
    const Shape grid = b.result_extents(0);
    std::vector<std::int64_t> size{grid.front(), 1};
    size.insert(size.end(), grid.begin() + 1, grid.end() - 1);
    b.set_target("size", kSize, std::move(size));
}

}  // namespace partita::graph
