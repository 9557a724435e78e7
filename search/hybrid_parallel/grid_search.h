// SPDX-License-Identifier: Apache-2.0
//
// GridSearch: what people configure, all of it: every grid of stages, groups that share the batch
// and devices that share each op with a weight (grids.h), with every number of micro-batches, every
// number of chunks and every ZeRO level (zero.h), as far as EngineOptions::parallel and the problem
// leave them open. What is said holds for every plan that it proposes, so that the time of a
// configuration is known, and not of something better.
//
//     --strategy tp=4,pp=2        16 devices: dp=2; micro-batches, zero, sp and vpp are searched
//
// Best estimate first (grid_queue.h). What keeps more than there is memory (kept_state.h) is not
// evaluated while anything else may fit. A grid that does not fit is tried with more and more ZeRO; one
// that fits with level 1 too, which may be quicker. It ends when kMostMisses possible ones in a row are
// not the best so far, and something fits; without a budget, too, when it has simulated kMostTasks.
//
// Of equal devices all are used, or as many as the degrees that were said divide, and those of one
// node; where they are too few for what was said, all devices of whatever kinds, in their order.
// Stages are cut by work, along layers where the model names them (layer_cut.h).
//
// Throws UsageError when no configuration of the kind that was said is possible, naming the op or the
// degree; where nothing was said, layers then go to devices as wholes (expert.h).
// Optimal: no. Source: as grids.h; Rajbhandari et al., ZeRO, SC 2020.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/core/parallel_config.h"
#include "search/core/searcher.h"
#include "search/hybrid_parallel/grid_queue.h"
#include "search/hybrid_parallel/grids.h"
#include "search/hybrid_parallel/zero.h"

namespace partita::search {

/// What the configuration leaves open of that many devices, `node` of them in a node: grids that
/// use most of all and most of one node. Groups of devices that share ops lie in a node, or take
/// whole nodes, unless tp is said.
std::vector<Grid> grids_of(const ParallelConfig& config, int devices, int node);

class GridSearch final : public Searcher {
public:
    static constexpr int kMostMisses = 12;
    static constexpr std::int64_t kMostTasks = 16'000'000;

    [[nodiscard]] Status step(Engine& engine) override;

private:
    /// A strategy of a grid.
    struct Proposal {
        ZeroLevel level = ZeroLevel::none;
        plan::Strategy strategy;
    };
    /// A grid under its policy, and what is proposed of it.
    struct Attempt {
        GridQueue::Entry entry;
        std::string fault;
        plan::Strategy plain;  ///< at no level
        std::vector<ZeroLevel> levels;
        std::size_t next = 0;            ///< of levels: not proposed yet
        std::deque<Proposal> proposals;  ///< not evaluated yet
    };

    void find_grids(const Engine& engine);
    [[nodiscard]] Attempt attempt(const Engine& engine, const GridQueue::Entry& entry);
    /// Adds the attempt's next proposal; false: there is none.
    bool propose(const Engine& engine, Attempt& attempt);
    /// All that is asked for next, whatever comes out.
    void foresee(Engine& engine);
    /// Evaluates what is proposed; false: the budget is spent.
    bool try_grid(Engine& engine, Attempt& attempt);
    [[nodiscard]] std::vector<ZeroLevel> levels(const Engine& engine, const Grid& grid,
                                                const Grids& grids) const;
    /// Groups that share the batch do alike, unless they have shards of their own: is_too_fine() of all
    /// devices, if nobody asked for the grid.
    [[nodiscard]] bool is_too_fine_in_shards(const Engine& engine, const Grid& grid,
                                             const Grids& grids) const;
    /// Not that, or they do alike all the same.
    [[nodiscard]] bool is_worth_lowering(const Engine& engine, const Grid& grid, const Grids& grids,
                                         const plan::Strategy& strategy);
    /// Throws what all of them lack, if they do.
    Status end(Engine& engine) const;

    ParallelConfig config_;  ///< what was said
    std::optional<Grids> base_;
    std::optional<GridQueue> queue_;
    std::deque<Attempt> ahead_;
    /// What keeps least of those that keep more than there is memory.
    struct Hopeless {
        Bytes beyond;
        plan::Strategy strategy;
        std::string configuration;
    };
    std::optional<Hopeless> least_;
    std::map<Grid, bool>
        folds_;       ///< of grids too fine in shards; by degrees alone, for it takes long
    int tried_ = 0;   ///< configurations that were evaluated
    int misses_ = 0;  ///< grids in a row
    std::int64_t tasks_before_ = 0;  ///< Engine::evaluated_tasks() at the begin
    std::string fault_;              ///< of the first grid that had one
};

}  // namespace partita::search
