// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::cost {

namespace {

/// One row after the other.
class RowReader {
public:
    RowReader(std::string_view text, const std::string& context) : text_(text), context_(context) {}

    [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
    [[nodiscard]] int line() const { return line_; }

    std::vector<std::string> row() {
        std::vector<std::string> fields;
        do {
            fields.push_back(field());
        } while (take(','));
        take('\r');
        if (take('\n')) ++line_;
        return fields;
    }

private:
    bool take(char wanted) {
        if (at_end() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }

    std::string field() {
        if (take('"')) return quoted();
        const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
        std::string field(text_.substr(at_, end - at_));
        at_ = end;
        return field;
    }

    std::string quoted() {
        const int began = line_;
        std::string field;
        while (!at_end()) {
            const char c = text_[at_++];
            if (c == '\n') ++line_;
            if (c != '"') {
                field += c;
            } else if (take('"')) {
                field += '"';
            } else {
                return field;
            }
        }
        throw InputError(fmt::format("{}: line {}: a quote does not end", context_, began));
    }

    std::string_view text_;
    const std::string& context_;
    std::size_t at_ = 0;
    int line_ = 1;
};

bool is_empty(const std::vector<std::string>& row) {
    return row.size() == 1 && row[0].empty();
}

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string_view first, std::string context)
    : context_(std::move(context)) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    RowReader reader(text, context_);
    while (!reader.at_end() && columns_.empty()) {
        std::vector<std::string> row = reader.row();
        if (std::ranges::find(row, first) != row.end()) columns_ = std::move(row);
    }
    if (columns_.empty()) {
        throw InputError(fmt::format("{}: no column '{}'", context_, first));
    }
    while (!reader.at_end()) {
        const int line = reader.line();
        std::vector<std::string> row = reader.row();
        if (is_empty(row)) continue;
        rows_.push_back({line, std::move(row)});
        const std::size_t fields = rows_.back().fields.size();
        if (fields != columns_.size()) {
            fail(rows_.size() - 1,
                 fmt::format("has {} fields, and there are {} columns", fields, columns_.size()));
        }
    }
}

std::optional<std::size_t> CsvTable::find(std::string_view column) const {
    const auto found = std::ranges::find(columns_, column);
    if (found == columns_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
    return rows_[row].fields[find(column).value()];
}

double CsvTable::number(std::size_t row, std::string_view column) const {
    const std::string& field = text(row, column);
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    const bool whole = error == std::errc{} && end == field.data() + field.size();
    if (!whole || !std::isfinite(value) || value < 0) {
        fail(row, fmt::format("{}: expected a number >= 0, got '{}'", column, field));
    }
    return value;
}

void CsvTable::fail(std::size_t row, const std::string& what) const {
    throw InputError(fmt::format("{}: line {}: {}", context_, rows_[row].line, what));
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string field = "\"";
    for (const char c : text) {
        if (c == '"') field += '"';
        field += c;
    }
    return field + '"';
}

}  // namespace partita::cost
