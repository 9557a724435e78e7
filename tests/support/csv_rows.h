// SPDX-License-Identifier: Apache-2.0
//
// Rows of the repository's measured tables.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace partita::tests {

using CsvRow = std::map<std::string, std::string>;  ///< by column

inline std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
}

/// Of a file of data/profiles without quoted cells.
inline std::vector<CsvRow> profile_rows(const std::filesystem::path& file) {
    std::ifstream stream(repository() / "data" / "profiles" / file);
    std::string line;
    std::getline(stream, line);
    const std::vector<std::string> names = cells_of(line);
    std::vector<CsvRow> rows;
    while (std::getline(stream, line)) {
        const std::vector<std::string> cells = cells_of(line);
        CsvRow& row = rows.emplace_back();
        for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
    }
    return rows;
}

}  // namespace partita::tests
