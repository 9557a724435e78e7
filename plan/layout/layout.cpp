// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/layout.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/small_vector.h"
#include "plan/layout/axis_role.h"

namespace partita::plan {

using graph::Box;
using graph::OpRule;
using graph::TensorRule;

graph::Positions part_along(const Axis& axis, const graph::Positions& positions,
                            std::int64_t extent, int index) {
    if (axis.blocks == 1) return graph::part_of(positions, axis.degree, index);
    assert(positions == graph::all_positions(extent));
    return graph::part_of_blocks(extent, axis.blocks, axis.degree, index);
}

Parts::Parts(const OpRule& rule, const OpConfig& config, Box base)
    : base_(std::move(base)), axes_(config.axes) {
    for (const graph::Factor& factor : rule.factors) extents_.push_back(factor.extent);
    for (const Axis& axis : axes_) {
        assert(has_axis(rule, axis));
        size_ *= axis.degree;
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

graph::Positions Parts::positions(int part, std::size_t factor) const {
    graph::Positions positions = base_[factor];
    for (std::size_t i = 0; i < axes_.size(); ++i) {
        const bool splits = axes_[i].kind == Axis::Kind::factor &&
                            static_cast<std::size_t>(axes_[i].factor) == factor;
        if (splits) positions = part_along(axes_[i], positions, extents_[factor], digit(part, i));
    }
    return positions;
}

namespace {

/// The positions of one dim, which differ with the digits of the axes that split its factors.
class DimOfParts {
public:
    DimOfParts(const OpRule& rule, const graph::DimRule& dim, const Parts& parts,
               std::int64_t extent, RegionTable& regions)
        : rule_(rule), dim_(dim), parts_(parts), extent_(extent), regions_(regions) {
        std::size_t combinations = 1;
        for (std::size_t a = 0; a < parts.axes().size(); ++a) {
            const Axis& axis = parts.axes()[a];
            if (axis.kind != Axis::Kind::factor) continue;
            if (std::find(dim.factors.begin(), dim.factors.end(), axis.factor) ==
                dim.factors.end()) {
                continue;
            }
            axes_.push_back(a);
            combinations *= static_cast<std::size_t>(axis.degree);
        }
        known_.assign(combinations, -1);
    }

    [[nodiscard]] bool is_split() const { return !axes_.empty(); }

    std::int32_t of(int part, Box& box) {
        std::size_t combination = 0;
        for (const std::size_t a : axes_) {
            combination = combination * static_cast<std::size_t>(parts_.axes()[a].degree) +
                          static_cast<std::size_t>(parts_.digit(part, a));
        }
        std::int32_t& known = known_[combination];
        if (known >= 0) return known;
        for (const int f : dim_.factors) {
            box[static_cast<std::size_t>(f)] = parts_.positions(part, static_cast<std::size_t>(f));
        }
        return known = regions_.intern(positions_of(rule_, dim_, extent_, box));
    }

private:
    const OpRule& rule_;
    const graph::DimRule& dim_;
    const Parts& parts_;
    std::int64_t extent_;
    RegionTable& regions_;
    SmallVector<std::size_t, 4> axes_;
    SmallVector<std::int32_t, 16> known_;
};

}  // namespace

std::vector<std::int32_t> regions_of_parts(const OpRule& rule, const TensorRule& tensor,
                                           const Parts& parts, const graph::Shape& shape,
                                           RegionTable& regions) {
    Box box = parts.base();
    const std::size_t rank = shape.size();
    const auto count = static_cast<std::size_t>(parts.size());
    std::vector<std::int32_t> dims(count * rank);
    for (std::size_t i = 0; i < rank; ++i) {
        DimOfParts dim(rule, tensor.dims[i], parts, shape[i], regions);
        for (std::size_t p = 0; p < count; ++p) {
            const bool known = p > 0 && !dim.is_split();
            dims[p * rank + i] = known ? dims[i] : dim.of(static_cast<int>(p), box);
        }
    }
    std::vector<std::int32_t> of_parts;
    of_parts.reserve(count);
    for (std::size_t p = 0; p < count; ++p) {
        of_parts.push_back(regions.intern(DimNumbers{dims.data() + p * rank, rank}));
    }
    return of_parts;
}

Layout layout_of(const OpRule& rule, const Parts& parts, const DeviceSet& devices, Side side,
                 std::size_t index, const graph::Shape& shape, RegionTable& regions) {
    const bool is_result = side == Side::result || side == Side::result_gradient;
    const TensorRule& tensor = is_result ? rule.results[index] : rule.operands[index];
    return layout_of(rule, parts, devices, side, index,
                     regions_of_parts(rule, tensor, parts, shape, regions));
}

Layout layout_of(const OpRule& rule, const Parts& parts, const DeviceSet& devices, Side side,
                 std::size_t index, std::span<const std::int32_t> regions_of_parts) {
    SmallVector<Role, 4> roles;
    Layout layout;
    for (const Axis& axis : parts.axes()) {
        roles.push_back(role_of(rule, axis, side, index));
        if (roles.back() != Role::addend) continue;
        layout.summands *= axis.degree;
        layout.combine = combine_of(rule, axis, side);
    }
    layout.pieces.reserve(static_cast<std::size_t>(parts.size()));
    for (int part = 0; part < parts.size(); ++part) {
        Piece piece{.device = devices[part],
                    .region = regions_of_parts[static_cast<std::size_t>(part)]};
        for (std::size_t a = 0; a < roles.size(); ++a) {
            if (roles[a] == Role::shared) continue;
            const int digit = parts.digit(part, a);
            if (roles[a] == Role::addend)
                piece.summand = piece.summand * parts.axes()[a].degree + digit;
            if (roles[a] == Role::first_only && digit != 0) piece.region = -1;
        }
        if (piece.region < 0) piece.summand = 0;
        layout.pieces.push_back(piece);
    }
    return layout;
}

}  // namespace partita::plan
