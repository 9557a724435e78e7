// SPDX-License-Identifier: Apache-2.0
//
// Layouts: how a tensor lies on devices. A layout has one piece per part of the op config it comes
// from, and every layout follows from factor rules; nothing here knows what data or tensor
// parallelism is.
//
//     MatMul y[m n] = x[m k] w[k n], config (m 2)(k 2) on devices 0 1 2 3
//
//     operand x     m0 k0 | m0 k1 | m1 k0 | m1 k1       sharded on both dims
//     operand w     k0    | k1    | k0    | k1          replicated over m
//     result y      m0 +0 | m0 +1 | m1 +0 | m1 +1       partial over k: two summands
//     gradient of w k0 +0 | k1 +0 | k0 +1 | k1 +1       its dual: partial over m
//
// A piece holds a region of the tensor and is one of `summands` addends: the value of an element is
// the sum (or whatever `combine` says) over the distinct summands of the pieces that hold it.
// Pieces with equal region and summand are replicas.
//
// Source: RULES.md 1-3, 6-8, 10, 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash_index.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// The positions of the dims of one region, by number.
using DimNumbers = std::span<const std::int32_t>;

/// Regions by number: equal regions have equal numbers, and so have the positions of their dims, so
/// that what two regions share is found dim by dim. One table per lowering, or per cache.
class RegionTable {
public:
    std::int32_t intern(const graph::Region& region);
    std::int32_t intern(DimNumbers dims);
    std::int32_t intern(const graph::Positions& positions);  ///< of a dim

    [[nodiscard]] const graph::Region& operator[](std::int32_t id) const {
        return regions_[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] std::int64_t volume(std::int32_t id) const {
        return volumes_[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] std::size_t size() const { return regions_.size(); }

    // What graph/operators/part.h says of regions; of two regions of one tensor.
    std::int32_t intersection(std::int32_t a, std::int32_t b);  ///< -1: it is empty
    [[nodiscard]] bool overlap(std::int32_t a, std::int32_t b) const;
    [[nodiscard]] bool contains(std::int32_t outer, std::int32_t inner) const;
    [[nodiscard]] bool is_contiguous(std::int32_t outer, std::int32_t inner) const;

private:
    /// Positions, with what nearly all questions are about.
    struct Line {
        graph::Range hull;
        std::int64_t count = 0;
        graph::Positions positions;
        /// One range, or none.
        [[nodiscard]] bool is_range() const { return positions.size() < 2; }
    };
    [[nodiscard]] DimNumbers dims(std::int32_t id) const {
        const auto i = static_cast<std::size_t>(id);
        return {dims_.data() + first_dims_[i], dims_.data() + first_dims_[i + 1]};
    }
    [[nodiscard]] const Line& line(std::int32_t id) const {
        return lines_[static_cast<std::size_t>(id)];
    }
    /// What two lines have in common that are no ranges.
    struct Common {
        std::int32_t a = -1;
        std::int32_t b = -1;
        std::int32_t line = -1;  ///< -1: nothing
    };
    [[nodiscard]] bool hulls_overlap(DimNumbers a, DimNumbers b) const;
    std::int32_t common_of_holed(std::int32_t a, std::int32_t b);
    std::int32_t common_positions(std::int32_t a, std::int32_t b);
    static bool is_run(const Line& outer, const Line& inner);

    std::vector<graph::Region> regions_;
    std::vector<std::int64_t> volumes_;
    std::vector<std::int32_t> dims_;          ///< of all regions
    std::vector<std::size_t> first_dims_{0};  ///< per region, and the end
    std::vector<Line> lines_;
    std::vector<Common> commons_;
    HashIndex region_index_;
    HashIndex line_index_;
    HashIndex common_index_;
    std::vector<std::int32_t> shared_;  ///< kept for its memory
};

struct Piece {
    std::int32_t device = -1;
    std::int32_t region = -1;  ///< -1: this part has nothing of the tensor
    std::int32_t summand = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
};

struct Layout {
    std::vector<Piece> pieces;  ///< one per part
    std::int32_t summands = 1;
    graph::Combine combine = graph::Combine::none;  ///< how summands combine; none with one
    friend bool operator==(const Layout&, const Layout&) = default;

    [[nodiscard]] bool is_partial() const { return summands > 1; }
};

/// The index-th part of what an axis of kind factor splits: `positions` of `extent`, all of them
/// when it has blocks.
graph::Positions part_along(const Axis& axis, const graph::Positions& positions,
                            std::int64_t extent, int index);

/// Parts of an op under a config: part p has digit (p / stride) % degree on each axis, the last
/// axis fastest.
class Parts {
public:
    /// `config` must be legal (plan::find_fault() of config_legality.h). `base`: the positions that
    /// are split, all of them or those of a micro-batch.
    Parts(const graph::OpRule& rule, const OpConfig& config, graph::Box base);

    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
    [[nodiscard]] int digit(int part, std::size_t axis) const {
        return part / strides_[axis] % axes_[axis].degree;
    }
    [[nodiscard]] graph::Box box(int part) const;
    /// What the part covers of one factor.
    [[nodiscard]] graph::Positions positions(int part, std::size_t factor) const;
    /// What is split.
    [[nodiscard]] const graph::Box& base() const { return base_; }

private:
    graph::Box base_;
    std::vector<std::int64_t> extents_;  ///< per factor
    std::vector<Axis> axes_;
    std::vector<int> strides_;
    int size_ = 1;
};

/// Which layout of an operand or result.
enum class Side : std::uint8_t { operand, result, operand_gradient, result_gradient };

/// The layout that the parts need of operand `index` (or of the gradient of a result), or give a
/// result (or the gradient of an operand).
Layout layout_of(const graph::OpRule& rule, const Parts& parts, const DeviceSet& devices, Side side,
                 std::size_t index, const graph::Shape& shape, RegionTable& regions);
/// The same from the regions of the parts, which a tensor and its gradient share.
Layout layout_of(const graph::OpRule& rule, const Parts& parts, const DeviceSet& devices, Side side,
                 std::size_t index, std::span<const std::int32_t> regions_of_parts);

/// Per part: what it reads of an operand, or writes of a result, as if it had any.
std::vector<std::int32_t> regions_of_parts(const graph::OpRule& rule,
                                           const graph::TensorRule& tensor, const Parts& parts,
                                           const graph::Shape& shape, RegionTable& regions);

}  // namespace partita::plan
