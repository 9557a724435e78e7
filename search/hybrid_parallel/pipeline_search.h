// SPDX-License-Identifier: Apache-2.0
//
// Pipelines whose micro-batches and schedule the search may choose: the second half of `expert`
// (expert.h), where the problem leaves them open. In this order, one evaluation a step:
//
//     layers   one stretch on each device    2, 4, 8, ... micro-batches; where there are no grids
//     kinds    a stage on each kind of       the same, best estimate first (kind_stages.h)
//              device, if there are several
//     grids    of two stages and more        every number of micro-batches, best estimate first, until
//                                            kMostPipelines were tried, or kMostMisses in a row were
//                                            not the best plan so far, or the estimate is hopeless
//     order    the best plan so far          without a schedule, if that is open; the others in 1f1b,
//                                            which is nearly always quicker and holds less at a time
//
// More micro-batches make the bubble smaller, (stages - 1) / micro-batches, and cost launches and
// repeated exchanges; the estimate of a grid knows both. It adds up what a timeline overlaps, so a
// grid is hopeless only when it promises more than kHopeless times the best plan so far.
//
// Small changes of a plan do not lead there: with one micro-batch stages only wait for each other,
// and without stages micro-batches only cost time. So somebody has to propose both together.
//
// Optimal: no. Source: as expert.h.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "plan/strategy/strategy.h"
#include "search/core/searcher.h"
#include "search/hybrid_parallel/grid_queue.h"
#include "search/hybrid_parallel/grids.h"
#include "search/hybrid_parallel/kind_stages.h"

namespace partita::search {

class PipelineSearch {
public:
    static constexpr int kMostPipelines = 6;
    static constexpr int kMostMisses = 3;
    static constexpr double kHopeless = 1.25;

    /// `grids` are those of the problem's policy. Both must outlive it.
    PipelineSearch(const GroupGraph& graph, Grids& grids);

    /// Status::found after the last one.
    [[nodiscard]] Status step(Engine& engine);

private:
    std::optional<plan::Strategy> next_layers();
    std::optional<plan::Strategy> next_grid(Engine& engine);
    void look_ahead(const Engine& engine, double limit);
    std::optional<plan::Strategy> next_order(const Engine& engine);

    const GroupGraph& graph_;
    std::vector<int> more_;  ///< numbers of micro-batches beyond the policy's, rising
    std::size_t next_layers_ = 0;
    KindStages kinds_;
    GridQueue queue_;
    struct Ahead {
        double estimate = 0;
        plan::Strategy strategy;
    };
    std::deque<Ahead> ahead_;  ///< from the queue, not evaluated yet
    int tried_ = 0;
    int misses_ = 0;  ///< grids in a row
    bool reordered_ = false;
};

}  // namespace partita::search
