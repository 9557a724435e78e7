// SPDX-License-Identifier: Apache-2.0
//
// Rows of a load relaxation (search/max_load/branch_and_bound/load_relaxation.h): how much each
// vertex counts on each device, and how much that may add up to there. Row 0 is the time itself.
// The others count in whole units of some length s, rounded down on both sides (Chvatal-Gomory):
//
//     load allowed 10, s = 3, things of 3.3     row 0   3.3 x <= 10     row 1   3 x <= 9
//                     things of 2               row 0   2 x <= 10       row 1   nothing
//
// What lies on a device for certain is taken from what it allows before that is rounded. Of all
// lengths that occur, those are used that leave the least room for what is still to be placed.
// Source: Chvatal, Discrete Math. 4(4), 1973, doi:10.1016/0012-365X(73)90167-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/max_load/model/load_graph.h"

namespace partita::search {

/// The kind of most devices.
[[nodiscard]] std::size_t main_kind(const LoadProblem& problem);

class LoadRows {
public:
    static constexpr std::size_t kCount = 3;

    explicit LoadRows(const LoadProblem& problem);

    /// Of a node of a search: loads less than or equal to `limit`, `masks` and certain loads as in
    /// LoadNode.
    void set(std::span<const std::uint64_t> masks, std::span<const std::int64_t> loads,
             std::int64_t limit);

    /// Per vertex and device.
    [[nodiscard]] std::span<const double> values(std::size_t row) const { return values_[row]; }
    [[nodiscard]] std::span<const std::int64_t> exact(std::size_t row) const { return exact_[row]; }
    /// By how much less than the limit a device allows.
    [[nodiscard]] std::int64_t less(std::size_t row, std::size_t d) const {
        return less_[row * devices_ + d];
    }

private:
    void choose(std::span<const std::uint64_t> masks);
    [[nodiscard]] double crowding(std::int64_t unit, std::span<const std::int64_t> times) const;

    const LoadProblem& problem_;
    std::size_t devices_;
    std::size_t main_kind_ = 0;          ///< of most devices
    std::vector<std::int64_t> lengths_;  ///< that occur, rising
    std::vector<std::int64_t> left_;     ///< of what is allowed, per device
    std::vector<std::int64_t> loose_;    ///< times of what is still to be placed
    std::vector<std::int64_t> units_;    ///< per row; 0: the row is empty
    std::vector<std::int64_t> less_;
    std::vector<std::vector<double>> values_;
    std::vector<std::vector<std::int64_t>> exact_;
};

}  // namespace partita::search
