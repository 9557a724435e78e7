// SPDX-License-Identifier: Apache-2.0
#include "cli/folded_table.h"

#include <algorithm>
#include <utility>

namespace partita::cli {

void FoldedTable::add(const std::string& name, std::vector<std::string> cells,
                      std::int64_t weight) {
    if (!rows_.empty() && rows_.back().cells == cells) {
        rows_.back().last = name;
        ++rows_.back().count;
        return;
    }
    rows_.push_back({name, name, 1, std::move(cells)});
    weights_.push_back(weight);
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
        std::vector<std::string> cells = {row.count == 1 ? row.first
                                                         : row.first + " .. " + row.last};
        if (counted) cells.push_back(with_commas(row.count));
        cells.insert(cells.end(), row.cells.begin(), row.cells.end());
        table.add_row(std::move(cells));
    }
    std::string text = table.to_text();
    if (left_out > 0) text += count_of(left_out, others) + "\n";
    return text;
}

}  // namespace partita::cli
