// SPDX-License-Identifier: Apache-2.0
//
// Tables for people: aligned columns two spaces apart, the same on a terminal and in a pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partita::cli {

enum class Align { left, right };

struct Column {
    std::string title;
    Align align = Align::left;
};

class Table {
public:
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// One cell per column.
    void add_row(std::vector<std::string> cells);
    [[nodiscard]] bool empty() const { return rows_.empty(); }
    /// Title line and rows, each behind `indent` spaces and ended by a newline.
    [[nodiscard]] std::string to_text(int indent = 0) const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// Positions of the `most` largest weights, of equals the first, rising.
std::vector<std::size_t> largest(const std::vector<std::int64_t>& weights, std::size_t most);

/// Columns that `text` (UTF-8) takes; wide characters count as one.
std::size_t display_width(std::string_view text);

/// `text`, or its end behind an ellipsis: of a long op name the end tells more.
std::string shortened(std::string_view text, std::size_t width);

/// `text`, or its beginning before an ellipsis.
std::string beginning(std::string_view text, std::size_t width);

/// "1 op", "12 ops", "1,234 ops".
std::string count_of(std::int64_t number, std::string_view noun);
/// "1,234,567".
std::string with_commas(std::int64_t number);
/// "8,569", "12.35", "0.01235": four digits, or all before the point.
std::string figure_text(double value);
/// "12.3 %"; a dash for a ratio that is not finite.
std::string percent(double ratio);

}  // namespace partita::cli
