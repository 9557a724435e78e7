// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/table.h"

namespace partita::cli {

/// Joins rows that agree in all but the first cell: "gpu0 .. gpu7" with their number.
class FoldedRows {
public:
    void add(const std::string& name, std::vector<std::string> cells) {
        if (!rows_.empty() && rows_.back().cells == cells) {
            rows_.back().last = name;
            ++rows_.back().count;
            return;
        }
        rows_.push_back({name, name, 1, std::move(cells)});
    }
    /// The first `most` rows. Returns how many were added to the others.
    std::int64_t add_to(Table& table,
                        std::size_t most = std::numeric_limits<std::size_t>::max()) const {
        std::int64_t left_out = 0;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            const Row& row = rows_[i];
            if (i >= most) {
                left_out += row.count;
                continue;
            }
            std::vector<std::string> cells = {
                row.count == 1 ? row.first : row.first + " .. " + row.last, with_commas(row.count)};
            cells.insert(cells.end(), row.cells.begin(), row.cells.end());
            table.add_row(std::move(cells));
        }
        return left_out;
    }

private:
    struct Row {
        std::string first;
        std::string last;
        std::int64_t count;
        std::vector<std::string> cells;
    };
    std::vector<Row> rows_;
};

}  // namespace partita::cli
