// SPDX-License-Identifier: Apache-2.0
//
// Exact: the best plan there is, with its proof, or how far from it the plan at hand can be.
//
//     throughput of given costs   branch and bound on placements (search/max_load/branch_and_bound/load_tree.h). Asks for plans below a
//                                 target between bound and value: none found raises the lower bound, one
//                                 found is the new value. A target that takes too long gives way to lower
//                                 ones, easier to prove, and has more time when its turn comes again
//     the same, for HiGHS         what is left of the budget, with the same question as a mixed-integer linear
//                                 program (search/max_load/exact/milp_bound.h): a better plan, or a bound to a 1e6th
//
//     lower bound ├──────●────────────────────┤ value        target: a share of what is between them
//
// The tree starts from what searchers before it found; `exact` of the table lets contiguous and annealing go first
// (composed.h).
//
// Optimal: when bound and value meet, in integers. What HiGHS says is the result's numerical bound, beside the
// proven one: floating point proves nothing.
// Ends: when bound and value meet, when HiGHS has nothing more to say, or, where nobody gave a limit of time,
// after some 60 s of one core for the tree and as many for HiGHS. With a limit of time, and both, the tree has
// three tenths of it.
// Random: the seed, in HiGHS. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/core/engine.h"
#include "search/core/searcher.h"
#include "search/max_load/branch_and_bound/load_tree.h"
#include "search/max_load/exact/milp.h"
#include "search/max_load/model/load_graph.h"
#include "search/support/clock.h"

namespace partita::search {

struct ExactOptions {
    std::int64_t operations = 60'000'000'000;        ///< of about 1 ns, without a limit of time
    std::int64_t highs_operations = 60'000'000'000;  ///< the same, of HiGHS
};

class Exact final : public Searcher {
public:
    explicit Exact(ExactOptions options = {});
    ~Exact() override;

    /// Needs given costs, their throughput as objective, and a best plan. About a tenth of a second of the tree;
    /// all of HiGHS, which an interruption ends.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    [[nodiscard]] Status begin(Engine& engine);
    [[nodiscard]] Status start(Engine& engine);
    [[nodiscard]] Status aim(Engine& engine);
    [[nodiscard]] bool tree_is_over(const Engine& engine) const;
    [[nodiscard]] Status end_tree();
    [[nodiscard]] Status ask_highs(Engine& engine);
    [[nodiscard]] MilpOptions highs_options(const Engine& engine) const;
    void offer(Engine& engine, const std::vector<std::int32_t>& devices);
    [[nodiscard]] Status end_target(Engine& engine);
    [[nodiscard]] Status give_way(Engine& engine);

    ExactOptions options_;
    /// Of ops that must share a device alone: what else the engine's groups join may be worth parting.
    std::unique_ptr<GroupGraph> groups_;
    LoadProblem load_;
    std::unique_ptr<LoadTree> tree_;
    Duration time_given_{0};  ///< of the limit of time, when the tree began
    bool with_highs_ = false;
    bool for_highs_ = false;   ///< its turn has come
    std::int64_t beyond_ = 0;  ///< more than any load
    std::int64_t bound_ = 0;   ///< no plan is below
    std::int64_t target_ = 0;  ///< the tree looks for plans below
    std::int64_t spent_ = 0;   ///< operations, of all targets
    std::int64_t left_ = 0;    ///< operations, of this target
    std::int64_t turn_ = 0;    ///< operations that a target has
    double share_ = 0;         ///< of the way from bound to value
};

/// Throws UsageError when HiGHS is asked for by name and is not there.
void check_exact_engine(ExactEngine engine);

}  // namespace partita::search
