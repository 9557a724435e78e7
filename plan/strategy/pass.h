// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace partita::plan {

/// Of an iteration over the ops. The loss of an output belongs to the backward, and so does the
/// update of a parameter. What is recomputed is a forward once more, for the backward.
enum class Pass : std::uint8_t { forward, backward, recompute };
inline constexpr std::array kPasses = {Pass::forward, Pass::backward, Pass::recompute};

/// The passes that ops may have: nothing is recomputed unless the problem allows it.
constexpr std::span<const Pass> passes(bool recomputes) {
    return {kPasses.data(), recomputes ? kPasses.size() : kPasses.size() - 1};
}

/// Number of an op's pass where things have one per op and pass. `ops`: of all rows; what is
/// recomputed comes behind the rest, so that without it nothing is left empty.
constexpr std::size_t pass_row(std::size_t op, Pass pass, std::size_t ops) {
    return pass == Pass::recompute ? 2 * ops + op : 2 * op + static_cast<std::size_t>(pass);
}

struct OpPass {
    std::size_t op = 0;
    Pass pass = Pass::forward;
};

/// What pass_row() numbers so.
constexpr OpPass op_pass(std::size_t row, std::size_t ops) {
    if (row >= 2 * ops) return {row - 2 * ops, Pass::recompute};
    return {row / 2, static_cast<Pass>(row % 2)};
}

}  // namespace partita::plan
