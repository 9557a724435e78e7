// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/model_error.h"

#include <cstdint>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::importers {

void throw_model_error(std::string_view file, std::string_view where, std::string_view what,
                       std::string_view remedy) {
    throw InputError(fmt::format("{}: {}: {}. {}", file, where, what, remedy));
}

std::string node_label(std::string_view name, std::string_view type) {
    // A name within functions within functions may have thousands of letters.
    constexpr std::size_t kShown = 120;
    if (name.size() <= 2 * kShown) return fmt::format("node '{}' ({})", name, type);
    return fmt::format("node '{}...{}' ({})", printable(name.substr(0, kShown)),
                       printable(name.substr(name.size() - kShown)), type);
}

namespace {

/// Length of the well-formed UTF-8 sequence (Unicode 15, table 3-7) at the start, or 0.
std::size_t sequence_length(std::string_view text) {
    const auto at = [&](std::size_t i) {
        return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
    };
    const auto continues = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
        return at(i) >= low && at(i) <= high;
    };
    const std::uint8_t first = at(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const bool second = first == 0xe0   ? continues(1, 0xa0)
                            : first == 0xed ? continues(1, 0x80, 0x9f)
                                            : continues(1);
        return second && continues(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool second = first == 0xf0   ? continues(1, 0x90)
                            : first == 0xf4 ? continues(1, 0x80, 0x8f)
                                            : continues(1);
        return second && continues(2) && continues(3) ? 4 : 0;
    }
    return 0;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        const auto first = static_cast<std::uint8_t>(text.front());
        const bool control = length == 1 && (first < 0x20 || first == 0x7f);
        if (length == 0 || control) {
            result += "\xef\xbf\xbd";
            text.remove_prefix(1);
        } else {
            result += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return result;
}

}  // namespace partita::importers
