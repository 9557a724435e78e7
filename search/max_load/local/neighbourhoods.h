// SPDX-License-Identifier: Apache-2.0
//
// Large-neighbourhood search in assignments to devices, for the least largest load (load_graph.h):
// what lies on the busiest device and one or two others is placed anew among these by branch and
// bound (load_tree.h), so that none of them has as much as the busiest had. Everything else stays
// (load_part.h).
//
//     loads   9 7 8 6     {9 6}: found 8 7     8 7 8 7     {8 7}: none, {8 7}: none, {8 8}: found 7 7 ...
//
// The loads, sorted, fall lexicographically with every success, until no neighbourhood has one:
// then no rearrangement among the busiest and two others helps, as far as the tree got with each.
//
// Exact: all in integers. Optimal: no; never worse than its start. Ends: by itself. Random: none.
// Source: Shaw, CP 1998, doi:10.1007/3-540-49481-2_30.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "search/max_load/model/load_graph.h"
#include "search/max_load/model/load_state.h"

namespace partita::search {

class LoadNeighbourhoods {
public:
    /// `problem` must outlive it. `operations`: of the tree in one neighbourhood, of about 1 ns.
    LoadNeighbourhoods(const LoadProblem& problem, std::int64_t operations);

    /// A new search from there, which must fit the memory.
    void begin(std::span<const std::int32_t> start);

    /// Calls work(0), work(1), ... maybe in several threads, and waits.
    using Parallel =
        std::function<void(std::size_t size, const std::function<void(std::size_t)>& work)>;

    /// Looks at the next few neighbourhoods; of those with a success the first counts, so that the
    /// result does not depend on threads. `stopped` is asked every some milliseconds.
    void advance(const Parallel& parallel, const std::function<bool()>& stopped);
    [[nodiscard]] bool over() const { return next_ >= neighbourhoods_.size(); }

    [[nodiscard]] const std::vector<std::int32_t>& best() const { return state_.device_of(); }
    [[nodiscard]] LoadScore best_score() const { return state_.score(); }
    [[nodiscard]] std::int64_t successes() const { return successes_; }

private:
    /// Devices, rising.
    using Neighbourhood = std::vector<std::size_t>;

    void list();
    [[nodiscard]] std::vector<std::int32_t> improve(const Neighbourhood& devices,
                                                    const std::function<bool()>& stopped) const;

    const LoadProblem& problem_;
    std::int64_t operations_;
    LoadState state_;
    std::vector<Neighbourhood> neighbourhoods_;  ///< of the busiest device, the small ones first
    std::size_t next_ = 0;
    std::int64_t successes_ = 0;
};

}  // namespace partita::search
