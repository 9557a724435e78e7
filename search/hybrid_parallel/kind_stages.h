// SPDX-License-Identifier: Apache-2.0
//
// Pipelines over unequal devices: each kind of device is one stage, whose devices share every op of
// it (group_split.h),
//
//     4 T4      first layers       │  1  2  3  4
//     4 A100        all others     │     1  2  3  4        micro-batches
//
// so that slow devices, which would only hold up the fast ones if they shared an op with them, do
// something at the same time. Where the model is cut comes from what each kind takes for each op
// and from what crosses the border (stage_cut.h); slow kinds before fast ones and the other way
// round; for every number of micro-batches, in the order eager-1f1b if that is open. Small changes
// of a plan do not lead there (pipeline_search.h).
//
// Not for ops that must stay whole, given costs, or more than kMostOps. Optimal: no. Source:
// HetPipe (Park et al., USENIX ATC 2020) and its like put unequal devices into one pipeline;
// differs: a stage is a kind, and its devices share ops.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"
#include "search/hybrid_parallel/intra_op/group_split.h"
#include "search/hybrid_parallel/stage_cut.h"

namespace partita::search {

class KindStages {
public:
    static constexpr std::size_t kMostOps = 20'000;
    static constexpr std::size_t kMostTried = 24;
    static constexpr double kHopeless = 1.25;  ///< estimates beyond so many times the best

    /// `graph` must outlive it; `micro_batches`: the numbers to try.
    KindStages(const GroupGraph& graph, std::vector<int> micro_batches);

    /// Best estimate first, as many as are worth pricing; nullopt: that was all.
    std::optional<plan::Strategy> next();

private:
    struct Candidate {
        int micro_batches = 1;
        std::vector<std::size_t> kinds;  ///< of each stage
        StageCut cut;
    };

    void find_candidates();
    std::vector<StageCut> cuts(const std::vector<std::size_t>& kinds, int micro_batches);
    std::vector<Time> work(std::size_t kind, int micro_batches);
    const GroupSplit& split(std::size_t kind, int micro_batches);
    [[nodiscard]] std::vector<Time> send_times(int from, int to) const;
    [[nodiscard]] plan::Strategy strategy(const Candidate& candidate);

    const GroupGraph& graph_;
    const plan::Problem& problem_;
    std::vector<int> micro_batches_;
    std::vector<std::vector<int>> kinds_;  ///< devices of each, the slowest kind first
    std::map<std::pair<std::size_t, int>, GroupSplit> splits_;
    std::vector<Candidate> candidates_;  ///< best estimate first
    std::size_t next_ = 0;
    bool found_ = false;
};

}  // namespace partita::search
