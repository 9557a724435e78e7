// SPDX-License-Identifier: Apache-2.0
//
// What a split does, without names of factors: the same word for a Gemm's rows and a convolution's
// images.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::rl {

/// Along what an op is split, major axis first.
enum class AxisClass : std::uint8_t { none, sample, parameter, attribute, reduction, replica };
inline constexpr std::size_t kAxisClasses = 6;

struct Kind {
    std::array<AxisClass, 2> axes{};  ///< all none: a whole op
    std::uint8_t ordinal = 0;         ///< among those of equal classes
    friend bool operator==(const Kind&, const Kind&) = default;
};

/// The ordinal is 0: it depends on what else there is.
Kind kind_of(const plan::Problem& problem, graph::OpId op, const std::vector<plan::Axis>& axes);

/// How unlike two kinds are; 0: the same.
int distance(const Kind& a, const Kind& b);

}  // namespace partita::rl
