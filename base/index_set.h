// SPDX-License-Identifier: Apache-2.0
//
// A set of small numbers that is filled, read in rising order and emptied over and over: one bit
// each.
//
// Time: insertion and look-up O(1), reading and clearing O(members + (largest - smallest) / 64).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

class IndexSet {
public:
    explicit IndexSet(std::size_t bound) : words_(bound / 64 + 1, 0), begin_(words_.size()) {}

    [[nodiscard]] bool empty() const { return begin_ >= end_; }
    [[nodiscard]] bool contains(std::size_t index) const {
        return (words_[index / 64] >> (index % 64) & 1) != 0;
    }
    void insert(std::size_t index) {
        const std::size_t word = index / 64;
        words_[word] |= std::uint64_t{1} << (index % 64);
        begin_ = std::min(begin_, word);
        end_ = std::max(end_, word + 1);
    }
    void clear() {
        for (; begin_ < end_; ++begin_) words_[begin_] = 0;
        begin_ = words_.size();
        end_ = 0;
    }
    /// In rising order. The set may grow meanwhile; only numbers above the present one are visited.
    template <class Visit>
    void for_each(Visit visit) const {
        for (std::size_t word = begin_; word < end_; ++word) {
            for (std::uint64_t left = words_[word]; left != 0;) {
                const auto bit = static_cast<std::size_t>(std::countr_zero(left));
                visit(word * 64 + bit);
                left = bit == 63 ? 0 : words_[word] >> (bit + 1) << (bit + 1);
            }
        }
    }

    /// The numbers of either of two sets of the same bound, in rising order.
    template <class Visit>
    friend void for_each_of_either(const IndexSet& a, const IndexSet& b, Visit visit) {
        const std::size_t end = std::max(a.end_, b.end_);
        for (std::size_t word = std::min(a.begin_, b.begin_); word < end; ++word) {
            for (std::uint64_t left = a.words_[word] | b.words_[word]; left != 0;
                 left &= left - 1) {
                visit(word * 64 + static_cast<std::size_t>(std::countr_zero(left)));
            }
        }
    }

private:
    std::vector<std::uint64_t> words_;
    std::size_t begin_;  ///< of the words that may have members
    std::size_t end_ = 0;
};

}  // namespace partita
