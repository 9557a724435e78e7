// SPDX-License-Identifier: Apache-2.0
#include "plan/layout.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <utility>

#include "plan/role.h"

namespace partita::plan {

using graph::Box;
using graph::OpRule;
using graph::TensorRule;

namespace {

std::size_t hash_of(const graph::Region& region) {
    std::uint64_t hash = 0x9E3779B97F4A7C15U;
    const auto mix = [&hash](std::int64_t value) {
        hash ^= static_cast<std::uint64_t>(value);
        hash *= 0xBF58476D1CE4E5B9U;
        hash ^= hash >> 31U;
    };
    for (const graph::Positions& positions : region.dims) {
        mix(static_cast<std::int64_t>(positions.size()));
        for (const graph::Range range : positions) {
            mix(range.begin);
            mix(range.end);
        }
    }
    return hash;
}

}  // namespace

std::int32_t RegionTable::intern(graph::Region region) {
    const std::size_t hash = hash_of(region);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if ((*this)[it->second] == region) return it->second;
    }
    const auto id = static_cast<std::int32_t>(regions_.size());
    volumes_.push_back(region.volume());
    regions_.push_back(std::move(region));
    by_hash_.emplace(hash, id);
    return id;
}

namespace {

/// "n" or "n/3".
std::optional<Axis> factor_axis(const OpRule& rule, const FactorDegree& degree) {
    const std::string_view name = degree.factor;
    const std::size_t slash = name.find('/');
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (rule.factors[f].name != name.substr(0, slash)) continue;
        Axis axis{.factor = static_cast<int>(f), .degree = degree.degree};
        if (slash == std::string_view::npos) return axis;
        const char* end = name.data() + name.size();
        const auto [rest, error] = std::from_chars(name.data() + slash + 1, end, axis.blocks);
        const bool known = error == std::errc() && rest == end && axis.blocks > 1;
        if (!known || rule.factors[f].extent % axis.blocks != 0) return std::nullopt;
        return axis;
    }
    return std::nullopt;
}

}  // namespace

std::optional<Axis> axis_of(const OpRule& rule, const FactorDegree& degree) {
    const std::string& name = degree.factor;
    if (name == "*") return Axis{.kind = Axis::Kind::replica, .degree = degree.degree};
    if (name.starts_with('+')) {
        Axis axis{.kind = Axis::Kind::summand, .degree = degree.degree};
        if (name.size() > 1) {
            const char* end = name.data() + name.size();
            const auto [rest, error] = std::from_chars(name.data() + 1, end, axis.operand);
            if (error != std::errc() || rest != end || axis.operand < 0) return std::nullopt;
            const auto index = static_cast<std::size_t>(axis.operand);
            if (index >= rule.operands.size() || !rule.operands[index].linear) return std::nullopt;
            return axis;
        }
        const auto linear = std::find_if(rule.operands.begin(), rule.operands.end(),
                                         [](const TensorRule& t) { return t.linear; });
        if (linear == rule.operands.end()) return std::nullopt;
        // Of factors of a product exactly one is partial.
        if (!rule.additive) axis.operand = static_cast<int>(linear - rule.operands.begin());
        return axis;
    }
    return factor_axis(rule, degree);
}

graph::Positions part_along(const Axis& axis, const graph::Positions& positions,
                            std::int64_t extent, int index) {
    if (axis.blocks == 1) return graph::part_of(positions, axis.degree, index);
    assert(positions == graph::all_positions(extent));
    return graph::part_of_blocks(extent, axis.blocks, axis.degree, index);
}

Parts::Parts(const OpRule& rule, const OpConfig& config, Box base) : base_(std::move(base)) {
    axes_.reserve(config.degrees.size());
    for (const graph::Factor& factor : rule.factors) extents_.push_back(factor.extent);
    for (const FactorDegree& degree : config.degrees) {
        const std::optional<Axis> axis = axis_of(rule, degree);
        assert(axis);
        axes_.push_back(*axis);
        size_ *= axis->degree;
    }
    strides_.resize(axes_.size());
    int stride = 1;
    for (std::size_t i = axes_.size(); i-- > 0;) {
        strides_[i] = stride;
        stride *= axes_[i].degree;
    }
}

Box Parts::box(int part) const {
    Box box = base_;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
        if (axes_[i].kind != Axis::Kind::factor) continue;
        const auto f = static_cast<std::size_t>(axes_[i].factor);
        box[f] = part_along(axes_[i], box[f], extents_[f], digit(part, i));
    }
    return box;
}

Layout layout_of(const OpRule& rule, const Parts& parts, const DeviceSet& devices, Side side,
                 std::size_t index, const graph::Shape& shape, RegionTable& regions) {
    const bool is_result = side == Side::result || side == Side::result_gradient;
    const TensorRule& tensor = is_result ? rule.results[index] : rule.operands[index];
    std::vector<Role> roles;
    Layout layout;
    for (const Axis& axis : parts.axes()) {
        roles.push_back(role_of(rule, axis, side, index));
        if (roles.back() != Role::addend) continue;
        layout.summands *= axis.degree;
        layout.combine = combine_of(rule, axis, side);
    }
    layout.pieces.reserve(static_cast<std::size_t>(parts.size()));
    for (int part = 0; part < parts.size(); ++part) {
        Piece piece{.device = devices[part]};
        bool present = true;
        for (std::size_t a = 0; a < roles.size(); ++a) {
            const int digit = parts.digit(part, a);
            if (roles[a] == Role::addend)
                piece.summand = piece.summand * parts.axes()[a].degree + digit;
            if (roles[a] == Role::first_only && digit != 0) present = false;
        }
        if (present) {
            piece.region = regions.intern(region_of(rule, tensor, shape, parts.box(part)));
        } else {
            piece.summand = 0;
        }
        layout.pieces.push_back(piece);
    }
    return layout;
}

}  // namespace partita::plan
