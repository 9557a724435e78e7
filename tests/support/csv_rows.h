// SPDX-License-Identifier: Apache-2.0
//
// Rows of the repository's measured tables.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/paths.h"

namespace partita::tests {

inline std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
}

/// Of a file of data/profiles without quoted cells, whose first line is `header`.
inline std::vector<std::vector<std::string>> profile_rows(const std::filesystem::path& file,
                                                          std::string_view header) {
    std::ifstream stream(repository() / "data" / "profiles" / file);
    std::string line;
    std::getline(stream, line);
    if (line != header) throw std::runtime_error(file.string() + ": not the columns " + line);
    std::vector<std::vector<std::string>> rows;
    while (std::getline(stream, line)) rows.push_back(cells_of(line));
    return rows;
}

}  // namespace partita::tests
