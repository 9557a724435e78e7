// SPDX-License-Identifier: Apache-2.0
//
// Dense ids of ops and tensors. Ordering by id is the total tie-break everywhere (contract 10).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace partita::graph {

template <class Tag>
struct Id {
    std::uint32_t value = std::numeric_limits<std::uint32_t>::max();

    constexpr Id() = default;
    constexpr explicit Id(std::uint32_t v) : value(v) {}
    constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}

    /// False for "no tensor": an optional operand that is left out.
    [[nodiscard]] constexpr bool valid() const {
        return value != std::numeric_limits<std::uint32_t>::max();
    }
    [[nodiscard]] constexpr std::size_t index() const { return value; }
    friend constexpr auto operator<=>(Id, Id) = default;
};

using OpId = Id<struct OpTag>;
using TensorId = Id<struct TensorTag>;

}  // namespace partita::graph
