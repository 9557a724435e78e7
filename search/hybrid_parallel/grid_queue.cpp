// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/grid_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace partita::search {

namespace {

bool is_worse(const GridQueue::Entry& a, const GridQueue::Entry& b) {
    return std::tie(a.estimate, a.policy, a.grid.stages, a.grid.groups, a.grid.group_size) >
           std::tie(b.estimate, b.policy, b.grid.stages, b.grid.groups, b.grid.group_size);
}

}  // namespace

void GridQueue::add(std::unique_ptr<Grids> grids, const std::vector<Grid>& which) {
    const plan::Policy& policy = grids->policy();
    // The base divides by its own chunks.
    const int steps =
        policy.micro_batches * policy.schedule.chunks / base_.policy().schedule.chunks;
    for (const Grid& grid : which) {
        entries_.push_back(
            {.estimate = base_.estimate(grid, steps), .policy = grids_.size(), .grid = grid});
        std::push_heap(entries_.begin(), entries_.end(), is_worse);
    }
    grids_.push_back(std::move(grids));
}

std::optional<GridQueue::Entry> GridQueue::pop(double limit) {
    while (!entries_.empty() && entries_.front().estimate <= limit) {
        std::pop_heap(entries_.begin(), entries_.end(), is_worse);
        Entry& best = entries_.back();
        if (best.priced) {
            const Entry found = best;
            entries_.pop_back();
            return found;
        }
        best.priced = true;
        best.estimate = grids_[best.policy]->estimate(best.grid);
        std::push_heap(entries_.begin(), entries_.end(), is_worse);
    }
    return std::nullopt;
}

}  // namespace partita::search
