// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/task_graph.h"

namespace partita::plan {

/// Rows 0..rows-1 of (row, item) pairs, each sorted and without repetitions. Rows are short, so counting
/// into rows and sorting these is quicker than sorting all pairs.
template <class T>
Csr<T> to_csr(const std::vector<std::pair<TaskId, T>>& pairs, std::size_t rows) {
    std::vector<std::uint32_t> ends(rows + 1, 0);
    for (const auto& pair : pairs) ++ends[static_cast<std::size_t>(pair.first) + 1];
    for (std::size_t i = 0; i < rows; ++i) ends[i + 1] += ends[i];
    std::vector<T> items(pairs.size());
    std::vector<std::uint32_t> next(ends.begin(), ends.end() - 1);
    for (const auto& [row, item] : pairs) items[next[static_cast<std::size_t>(row)]++] = item;
    Csr<T> csr;
    csr.offsets.reserve(rows + 1);
    csr.items.reserve(pairs.size());
    for (std::size_t i = 0; i < rows; ++i) {
        const auto begin = items.begin() + ends[i];
        const auto end = items.begin() + ends[i + 1];
        std::sort(begin, end);
        csr.items.insert(csr.items.end(), begin, std::unique(begin, end));
        csr.offsets.push_back(static_cast<std::uint32_t>(csr.items.size()));
    }
    return csr;
}

}  // namespace partita::plan
