// SPDX-License-Identifier: Apache-2.0
//
// Our own random numbers: reproducible to the byte on every platform, which the distributions of
// the standard library are not. xoshiro256** seeded through splitmix64.
//
// Source: Blackman, Vigna, ACM TOMS 47(4), 2021, doi:10.1145/3460772; bounded integers without
// bias: Lemire, ACM TOMACS 29(1), 2019, doi:10.1145/3230636.
#pragma once

#include <array>
#include <cstdint>

namespace partita::search {

/// One step of splitmix64: a bijection of 64-bit words that spreads nearby inputs.
[[nodiscard]] std::uint64_t mix(std::uint64_t word);

class Random {
public:
    explicit Random(std::uint64_t seed = 1);

    /// The stream number `index` of the same seed; independent of what was drawn here.
    [[nodiscard]] static Random stream(std::uint64_t seed, std::uint64_t index);

    [[nodiscard]] std::uint64_t next();
    /// Uniform in [0, bound); bound >= 1.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound);
    /// Uniform in [0, 1), a multiple of 2^-53.
    [[nodiscard]] double uniform();

private:
    std::array<std::uint64_t, 4> state_{};
};

}  // namespace partita::search
