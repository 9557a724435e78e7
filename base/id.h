// SPDX-License-Identifier: Apache-2.0
//
// Dense numbers of things of one kind: those of different kinds do not mix, and no number becomes
// one by itself.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace partita {

template <class Tag>
struct Id {
    std::uint32_t value = std::numeric_limits<std::uint32_t>::max();

    constexpr Id() = default;
    constexpr explicit Id(std::uint32_t v) : value(v) {}
    constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}

    /// False for "none", which sorts behind all others.
    [[nodiscard]] constexpr bool valid() const {
        return value != std::numeric_limits<std::uint32_t>::max();
    }
    [[nodiscard]] constexpr std::size_t index() const { return value; }
    friend constexpr auto operator<=>(Id, Id) = default;
};

}  // namespace partita
