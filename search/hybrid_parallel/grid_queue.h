// SPDX-License-Identifier: Apache-2.0
//
// Grids under several policies (micro-batches, schedules), best estimate first. To price a grid
// under a policy takes as long as some evaluations, so each begins with a bound, its estimate with
// micro-batches that cost nothing, and is priced only when nothing else may be better.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "search/hybrid_parallel/grids.h"

namespace partita::search {

class GridQueue {
public:
    struct Entry {
        double estimate = 0;     ///< ps
        bool priced = false;     ///< false: the estimate is too small
        std::size_t policy = 0;  ///< number of the Grids
        Grid grid;
    };

    /// `base`: what bounds are made of, with few micro-batches; must outlive it.
    explicit GridQueue(Grids& base) : base_(base) {}

    /// These grids under the policy of `grids`.
    void add(std::unique_ptr<Grids> grids, const std::vector<Grid>& which);

    /// The best, if its estimate is no more than the limit. Equal ones: fewer micro-batches first
    /// (in the order of add()), then fewer stages, then fewer groups.
    std::optional<Entry> pop(double limit);

    [[nodiscard]] Grids& grids(const Entry& entry) { return *grids_[entry.policy]; }

private:
    Grids& base_;
    std::vector<std::unique_ptr<Grids>> grids_;
    std::vector<Entry> entries_;  ///< a heap
};

}  // namespace partita::search
