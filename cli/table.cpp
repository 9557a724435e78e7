// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

namespace partita::cli {
namespace {

constexpr bool continues_character(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;  // UTF-8
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
    assert(cells.size() == columns_.size());
    rows_.push_back(std::move(cells));
}

std::string Table::to_text(int indent) const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        std::size_t width = display_width(columns_[c].title);
        for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
        widths.push_back(width);
    }
    std::string text;
    const auto add_line = [&](const auto& cell_of) {
        std::string line(static_cast<std::size_t>(indent), ' ');
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            const std::string& cell = cell_of(c);
            const std::string padding(widths[c] - display_width(cell), ' ');
            if (c > 0) line += "  ";
            line += columns_[c].align == Align::left ? cell + padding : padding + cell;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    };
    add_line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
    for (const auto& row : rows_) {
        add_line([&](std::size_t c) -> const std::string& { return row[c]; });
    }
    return text;
}

std::vector<std::size_t> largest(const std::vector<std::int64_t>& weights, std::size_t most) {
    std::vector<std::size_t> positions(weights.size());
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    if (positions.size() <= most) return positions;
    std::ranges::stable_sort(positions, std::greater{},
                             [&](std::size_t position) { return weights[position]; });
    positions.resize(most);
    std::ranges::sort(positions);
    return positions;
}

std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

std::string shortened(std::string_view text, std::size_t width) {
    if (display_width(text) <= width) return std::string(text);
    std::size_t begin = text.size();
    std::size_t shown = 2;  // the ellipsis
    while (begin > 0 && shown < width) {
        --begin;
        if (!continues_character(text[begin])) ++shown;
    }
    return ".." + std::string(text.substr(begin));
}

std::string beginning(std::string_view text, std::size_t width) {
    if (display_width(text) <= width) return std::string(text);
    std::size_t end = 0;
    std::size_t shown = 2;  // the ellipsis
    while (end < text.size() && (shown < width || continues_character(text[end]))) {
        if (!continues_character(text[end])) ++shown;
        ++end;
    }
    return std::string(text.substr(0, end)) + "..";
}

std::string with_commas(std::int64_t number) {
    std::string digits = std::to_string(number);
    const std::ptrdiff_t first = number < 0 ? 1 : 0;
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
        digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
}

std::string count_of(std::int64_t number, std::string_view noun) {
    return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

std::string figure_text(double value) {
    return value >= 1'000 ? with_commas(std::llround(value)) : fmt::format("{:.4g}", value);
}

std::string percent(double ratio) {
    if (!std::isfinite(ratio)) return "-";
    return fmt::format("{:.1f} %", 100 * ratio);
}

}  // namespace partita::cli
