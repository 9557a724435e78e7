// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace partita {

enum class FigureKind : std::uint8_t { bytes, bytes_per_second, flops, time, price };

/// What a text with a unit ("16GiB", "7us") says, in the base unit of `kind`; "b/s" are bits, and
/// prices are numbers without a unit, whose base is a millionth. Null when it is nothing of the kind:
/// another kind's unit, a negative number, or more than 10^18.
std::optional<std::int64_t> parse_figure(std::string_view text, FigureKind kind);

}  // namespace partita
