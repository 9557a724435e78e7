// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/table.h"

namespace partita::cli {

/// A table in which those that agree in all but their names share a row with their number: neighbours
/// as "gpu0 .. gpu7", others as "gpu0, ...".
class FoldedTable {
public:
    /// The first one is that of names.
    explicit FoldedTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

    void add(const std::string& name, std::vector<std::string> cells, std::int64_t weight = 0);
    /// The `most` heaviest rows, of equals the first, in the order in which they came; how many the
    /// others are in a last line: "12 " and `others` in the plural. "" when there are no rows.
    [[nodiscard]] std::string to_text(std::size_t most = std::numeric_limits<std::size_t>::max(),
                                      std::string_view others = {}) const;

private:
    struct Row {
        std::string first;
        std::string last;
        std::int64_t count = 1;
        bool neighbours = true;
        std::vector<std::string> cells;
    };
    [[nodiscard]] static std::string label_of(const Row& row);

    std::vector<Column> columns_;
    std::vector<Row> rows_;
    std::vector<std::int64_t> weights_;  ///< the same
    std::map<std::vector<std::string>, std::size_t> by_cells_;
    std::size_t previous_ = 0;  ///< the row of what was added last
};

}  // namespace partita::cli
