// SPDX-License-Identifier: Apache-2.0
//
// Tables of comma-separated values with a line of names (RFC 4180: fields in quotes may hold commas,
// lines and doubled quotes).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::cost {

class CsvTable {
public:
    /// Lines before the first that has the column `first` (what programs print ahead) are left out.
    /// Throws InputError naming file and line: no such line, a row of another length, a quote that
    /// does not end.
    CsvTable(std::string_view text, std::string_view first, std::string context);

    [[nodiscard]] bool has(std::string_view column) const { return find(column).has_value(); }
    [[nodiscard]] std::size_t size() const { return rows_.size(); }
    /// Of a column that there is.
    [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
    /// A finite number >= 0; throws InputError naming file, line and column.
    [[nodiscard]] double number(std::size_t row, std::string_view column) const;
    /// Throws InputError.
    [[noreturn]] void fail(std::size_t row, const std::string& what) const;

private:
    struct Row {
        int line = 0;
        std::vector<std::string> fields;
    };
    [[nodiscard]] std::optional<std::size_t> find(std::string_view column) const;

    std::string context_;
    std::vector<std::string> columns_;
    std::vector<Row> rows_;
};

/// In quotes where it has to be.
std::string csv_field(std::string_view text);

}  // namespace partita::cost
