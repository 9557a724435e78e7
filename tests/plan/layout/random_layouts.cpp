// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/layout/random_layouts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace partita::plan {

using graph::Combine;
using graph::Factor;
using graph::OpRule;
using graph::Shape;
using search::Random;

DeviceSet draw_devices(Random& random, int count, int devices) {
    std::vector<int> all(static_cast<std::size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    for (int i = 0; i < count; ++i) {
        const int other = i + draw(random, devices - i);
        std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(other)]);
    }
    all.resize(static_cast<std::size_t>(count));
    if (draw(random, 2) == 0) std::sort(all.begin(), all.end());
    return DeviceSet::list(std::move(all));
}

Shape draw_shape(Random& random) {
    Shape shape;
    for (int rank = (1 + draw(random, 9)) / 3; rank > 0; --rank)
        shape.push_back(1 + draw(random, 8));
    return shape;
}

namespace {

int add_factor(OpRule& rule, std::string name, std::int64_t extent) {
    rule.factors.push_back({.name = std::move(name), .extent = extent});
    return static_cast<int>(rule.factors.size()) - 1;
}

graph::Window draw_window(Random& random) {
    return {.stride = 1 + draw(random, 3),
            .before = draw(random, 3) - 1,
            .after = draw(random, 4),
            .divisor = 1 + draw(random, 8) / 7};
}

graph::DimRule draw_dim(Random& random, OpRule& rule, const std::string& name, std::int64_t extent,
                        bool windows) {
    if (windows && draw(random, 4) == 0) {
        return {.factors = {add_factor(rule, name, 1 + draw(random, 6))},
                .window = draw_window(random)};
    }
    std::vector<int> factors;
    // Merged of two or three where the extent allows it: (3 h), (b s), ...
    std::int64_t rest = extent;
    for (const std::int64_t prime : {3, 2, 2}) {
        if (rest % prime != 0 || rest == prime || draw(random, 2) == 0) continue;
        factors.push_back(add_factor(rule, name + std::string(factors.size() + 1, '\''), prime));
        rest /= prime;
    }
    factors.push_back(add_factor(rule, name, rest));
    if (draw(random, 2) == 0) std::swap(factors.front(), factors.back());
    graph::DimRule dim{.factors = std::move(factors)};
    if (windows && draw(random, 4) == 0) {
        const auto major = static_cast<std::size_t>(dim.factors.front());
        dim.rotation = draw(random, static_cast<int>(rule.factors[major].extent));
    }
    return dim;
}

graph::TensorRule draw_tensor(Random& random, OpRule& rule, const Shape& shape, bool windows) {
    graph::TensorRule tensor{.dims = {}, .linear = true};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool never_split = draw(random, 8) == 0;
        tensor.dims.push_back(
            never_split ? graph::DimRule{}
                        : draw_dim(random, rule, fmt::format("d{}", d), shape[d], windows));
    }
    return tensor;
}

bool leaves_part_empty(const OpRule& rule, const OpConfig& config) {
    const Parts parts(rule, config, graph::whole_box(rule));
    for (int part = 0; part < parts.size(); ++part) {
        const graph::Box box = parts.box(part);
        if (std::any_of(box.begin(), box.end(), [](const auto& p) { return p.empty(); }))
            return true;
    }
    return false;
}

/// At most `most` parts; axes are drawn from `all`, again and again.
OpConfig draw_config(Random& random, const OpRule& rule, const std::vector<Axis>& all,
                     OpConfig config, int most) {
    int parts = 1;
    for (const Axis& axis : config.axes) parts *= axis.degree;
    for (int axes = draw(random, 4); axes > 0; --axes) {
        const auto pick = static_cast<std::size_t>(draw(random, static_cast<int>(all.size())));
        const int degree = 2 + draw(random, 6) / 3 + draw(random, 6) / 5;
        if (parts * degree > most) continue;
        OpConfig longer = config;
        const auto at =
            longer.axes.begin() + draw(random, static_cast<int>(longer.axes.size()) + 1);
        longer.axes.insert(at, all[pick].with_degree(degree));
        if (leaves_part_empty(rule, longer)) continue;
        config = std::move(longer);
        parts *= degree;
    }
    config.devices = draw_devices(random, parts, most);
    return config;
}

/// Replicas, and each factor.
std::vector<Axis> axes_of(const OpRule& rule) {
    std::vector<Axis> axes{Axis::replicas(1)};
    for (std::size_t f = 0; f < rule.factors.size(); ++f) axes.push_back(Axis::along(f, 1));
    return axes;
}

}  // namespace

SplitOp draw_producer(Random& random, const Shape& shape, int devices) {
    SplitOp op;
    op.rule.results.push_back(draw_tensor(random, op.rule, shape, /*windows=*/false));
    op.rule.operands = op.rule.results;
    constexpr std::array kCombines{Combine::sum, Combine::max, Combine::min, Combine::product};
    Factor& reduced = op.rule.factors[static_cast<std::size_t>(add_factor(op.rule, "r", 12))];
    reduced.reduction = true;
    reduced.combine = kCombines[static_cast<std::size_t>(std::max(0, draw(random, 8) - 4))];
    std::vector<Axis> axes = axes_of(op.rule);
    if (reduced.combine == Combine::sum) axes.push_back(Axis::summands(1));
    op.config = draw_config(random, op.rule, axes, {}, devices);
    return op;
}

SplitOp draw_consumer(Random& random, const Shape& shape, int devices, int summands) {
    SplitOp op;
    op.rule.operands.push_back(draw_tensor(random, op.rule, shape, /*windows=*/summands == 1));
    add_factor(op.rule, "n", 12);  // columns of a weight, say: the operand lacks it
    OpConfig config;
    if (summands > 1) config.axes.push_back(Axis::summands(summands));
    op.config = draw_config(random, op.rule, axes_of(op.rule), config, devices);
    return op;
}

Layout layout_of(const SplitOp& op, Side side, const Shape& shape, RegionTable& regions) {
    const Parts parts(op.rule, op.config, graph::whole_box(op.rule));
    return layout_of(op.rule, parts, op.config.devices, side, 0, shape, regions);
}

namespace {

std::string text_of(const graph::Positions& positions) {
    std::string text;
    for (const graph::Range range : positions) {
        if (!text.empty()) text += ' ';
        text += range.end - range.begin == 1 ? fmt::format("{}", range.begin)
                                             : fmt::format("{}-{}", range.begin, range.end - 1);
    }
    return text.empty() ? "nothing" : text;
}

}  // namespace

std::string text_of(const Layout& layout, const RegionTable& regions) {
    const bool is_whole = layout.combine == Combine::none;
    std::string text =
        fmt::format("{} of {}", is_whole ? "whole" : name_of(layout.combine), layout.summands);
    for (const Piece& piece : layout.pieces) {
        text += fmt::format("\n  device {}: ", piece.device);
        if (piece.region < 0) {
            text += "not needed";
            continue;
        }
        std::string dims;
        for (const graph::Positions& positions : regions[piece.region].dims) {
            dims += (dims.empty() ? "" : " | ") + text_of(positions);
        }
        text += fmt::format("[{}] +{}", dims, piece.summand);
    }
    return text;
}

}  // namespace partita::plan
