// SPDX-License-Identifier: Apache-2.0
//
// How many random cases a test draws. It says how many do before each change; PARTITA_TEST_DRAWS
// asks for another share of them, in percent: more in scripts/nightly, fewer under sanitizers.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <ranges>

#include "search/support/random.h"

namespace partita::support {

/// PARTITA_TEST_DRAWS; 100 without. Throws std::invalid_argument where it is no whole number from 1
/// to 1,000,000.
[[nodiscard]] std::int64_t percent_of_draws();

/// That share of `usual`, at least one. Of counts that a test expects of its cases, too.
template <std::integral T>
[[nodiscard]] T draws(T usual) {
    return std::max(static_cast<T>(static_cast<std::int64_t>(usual) * percent_of_draws() / 100),
                    T{1});
}

/// From 1 to draws(usual).
[[nodiscard]] inline auto seeds(std::uint64_t usual) {
    return std::views::iota(std::uint64_t{1}, draws(usual) + 1);
}

/// From 0 to below - 1.
[[nodiscard]] inline int draw(search::Random& random, int below) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(below)));
}

}  // namespace partita::support
