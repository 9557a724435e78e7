// SPDX-License-Identifier: Apache-2.0
#include "cli/folded_table.h"

#include <algorithm>
#include <utility>

namespace partita::cli {

void FoldedTable::add(const std::string& name, std::vector<std::string> cells,
                      std::int64_t weight) {
    const auto [known, is_new] = by_cells_.try_emplace(cells, rows_.size());
    if (is_new) {
        rows_.push_back({.first = name, .last = name, .cells = std::move(cells)});
        weights_.push_back(weight);
    } else {
        Row& row = rows_[known->second];
        row.neighbours = row.neighbours && previous_ == known->second;
        row.last = name;
        ++row.count;
    }
    previous_ = known->second;
}

std::string FoldedTable::label_of(const Row& row) {
    if (row.count == 1) return row.first;
    return row.neighbours ? row.first + " .. " + row.last : row.first + ", ...";
}

std::string FoldedTable::to_text(std::size_t most, std::string_view others) const {
    if (rows_.empty()) return "";
    std::int64_t left_out = 0;
    for (const Row& row : rows_) left_out += row.count;
    const bool counted = std::ranges::any_of(rows_, [](const Row& row) { return row.count > 1; });
    std::vector<Column> columns = columns_;
    if (counted) columns.insert(columns.begin() + 1, Column{.title = "", .align = Align::right});
    Table table(std::move(columns));
    for (const std::size_t i : largest(weights_, most)) {
        const Row& row = rows_[i];
        left_out -= row.count;
        std::vector<std::string> cells = {label_of(row)};
        if (counted) cells.push_back(with_commas(row.count));
        cells.insert(cells.end(), row.cells.begin(), row.cells.end());
        table.add_row(std::move(cells));
    }
    std::string text = table.to_text();
    if (left_out > 0) text += count_of(left_out, others) + "\n";
    return text;
}

}  // namespace partita::cli
