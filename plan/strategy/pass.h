// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace partita::plan {

/// Of an iteration over the ops. The loss of an output belongs to the backward, and so does the
/// update of a parameter.
enum class Pass : std::uint8_t { forward, backward };
inline constexpr std::array kAllPasses = {Pass::forward, Pass::backward};
inline constexpr std::size_t kPasses = kAllPasses.size();

/// Number of an op's pass where things have one per op and pass.
constexpr std::size_t pass_row(std::size_t op, Pass pass) {
    return kPasses * op + static_cast<std::size_t>(pass);
}

}  // namespace partita::plan
