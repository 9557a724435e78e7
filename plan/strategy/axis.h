// SPDX-License-Identifier: Apache-2.0
//
// Axis: one way in which a config splits its op, as a small value. Text names it in plan.json, the
// API, reports and messages alone:
//
//     n      2    factor n of the op's rule, in 2 parts
//     n/3    2    n as 3 equal blocks, each of which is cut in 2: q, k and v of a fused projection
//     *      2    replicas, which do the same work
//     +      2    summands that pass through: of all linear operands, or the first of a product's
//     +1     2    summands of operand 1 alone
//
// A factor is its index in OpRule::factors. So an axis means the same in every op whose factors
// have the same names in the same order, and what is carried between other ops goes by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/operators/op_rule.h"

namespace partita::plan {

struct Axis {
    enum class Kind : std::uint8_t { factor, replica, summand };
    Kind kind = Kind::factor;
    std::int32_t factor = -1;   ///< of a factor: index into OpRule::factors
    std::int32_t operand = -1;  ///< of summands: the partial operand; -1: all linear ones, or the
                                ///< first where they multiply
    std::int32_t degree = 1;    ///< parts, >= 2 in a legal config
    /// Of a factor: it is made of so many equal blocks, each of which is split.
    std::int64_t blocks = 1;
    friend bool operator==(const Axis&, const Axis&) = default;

    template <class Index>
    static constexpr Axis along(Index factor, std::int32_t degree, std::int64_t blocks = 1) {
        return {.factor = static_cast<std::int32_t>(factor), .degree = degree, .blocks = blocks};
    }
    static constexpr Axis replicas(std::int32_t degree) {
        return {.kind = Kind::replica, .degree = degree};
    }
    static constexpr Axis summands(std::int32_t degree, std::int32_t operand = -1) {
        return {.kind = Kind::summand, .operand = operand, .degree = degree};
    }

    [[nodiscard]] constexpr bool is_factor() const { return kind == Kind::factor; }
    [[nodiscard]] constexpr bool is_replica() const { return kind == Kind::replica; }
    [[nodiscard]] constexpr bool is_summand() const { return kind == Kind::summand; }
    [[nodiscard]] constexpr Axis with_degree(std::int32_t other) const {
        Axis axis = *this;
        axis.degree = other;
        return axis;
    }
};

/// Does the rule have what the axis splits: the factor, blocks that divide it and may be split
/// (with 1 there are none), the linear operand? Whether it may be split in so many parts is for
/// config_legality.h to say.
bool has_axis(const graph::OpRule& rule, const Axis& axis);

/// The axis of that name; nullopt: the rule has none.
std::optional<Axis> axis_of(const graph::OpRule& rule, std::string_view name, int degree);

/// The name by which axis_of() finds the axis; of a factor that the rule lacks, "#" and its index.
std::string name_of(const graph::OpRule& rule, const Axis& axis);

}  // namespace partita::plan
