// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/id.h"

namespace partita {

/// Lists of T for each of n rows, in one array.
template <class T>
struct Csr {
    std::vector<std::uint32_t> offsets{0};
    std::vector<T> items;

    [[nodiscard]] std::size_t rows() const { return offsets.size() - 1; }
    [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
        return {items.data() + offsets[row], items.data() + offsets[row + 1]};
    }

    void clear() {
        offsets.assign(1, 0);
        items.clear();
    }
    /// The items since the row before are one more row.
    void end_row() { offsets.push_back(static_cast<std::uint32_t>(items.size())); }
    template <class Range>
    void add_row(const Range& row) {
        items.insert(items.end(), row.begin(), row.end());
        end_row();
    }
};

/// Rows of pairs are numbers or ids.
constexpr std::size_t csr_row(std::int32_t row) {
    return static_cast<std::size_t>(row);
}
template <class Tag>
constexpr std::size_t csr_row(Id<Tag> row) {
    return row.index();
}

/// What to_csr() needs besides; kept for its memory.
template <class T>
struct CsrScratch {
    std::vector<std::uint32_t> ends;
    std::vector<T> items;
};

/// Afterwards the items of row i end at ends[i].
template <class Row, class T>
void sort_by_row(const std::vector<std::pair<Row, T>>& pairs, std::size_t rows,
                 CsrScratch<T>& scratch) {
    scratch.ends.assign(rows + 1, 0);
    for (const auto& pair : pairs) ++scratch.ends[csr_row(pair.first) + 1];
    for (std::size_t i = 0; i < rows; ++i) scratch.ends[i + 1] += scratch.ends[i];
    scratch.items.resize(pairs.size());
    for (const auto& [row, item] : pairs) {
        scratch.items[scratch.ends[csr_row(row)]++] = item;
    }
}

/// Rows 0..rows-1 of (row, item) pairs, each sorted and without repetitions. Rows are short, so
/// counting into rows and sorting these is quicker than sorting all pairs.
template <class Row, class T>
void to_csr(const std::vector<std::pair<Row, T>>& pairs, std::size_t rows, CsrScratch<T>& scratch,
            Csr<T>& csr) {
    sort_by_row(pairs, rows, scratch);
    csr.clear();
    csr.offsets.reserve(rows + 1);
    csr.items.reserve(pairs.size());
    auto begin = scratch.items.begin();
    for (std::size_t i = 0; i < rows; ++i) {
        const auto end = scratch.items.begin() + scratch.ends[i];
        if (end - begin > 1) std::sort(begin, end);
        for (; begin != end; ++begin) {
            const bool is_new =
                csr.items.size() == csr.offsets.back() || csr.items.back() != *begin;
            if (is_new) csr.items.push_back(*begin);
        }
        csr.end_row();
    }
}

template <class Row, class T>
Csr<T> to_csr(const std::vector<std::pair<Row, T>>& pairs, std::size_t rows) {
    CsrScratch<T> scratch;
    Csr<T> csr;
    to_csr(pairs, rows, scratch, csr);
    return csr;
}

}  // namespace partita
