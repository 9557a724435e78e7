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
// The tree starts from what searchers before it found; `exact` of the table lets contiguous and
// annealing go first (composed_searchers.h).
//
// Optimal: when bound and value meet, in integers. What HiGHS says is the result's numerical bound,
// beside the proven one: floating point proves nothing.
// Ends: when bound and value meet, when HiGHS has nothing more to say, or, where nobody gave a
// limit of time, after some 60 s of one core for the tree and as many for HiGHS. With a limit of
// time, and both, the tree has three tenths of it. Random: the seed, in HiGHS. Threads: one.
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

/// Which target between a bound and a value the tree is asked for next, and for how long: the
/// middle first; after one that took too long a lower one, which is easier to prove, and after the
/// lowest the value itself, with four times as long; after one that was proven a higher one.
class TargetSchedule {
public:
    /// Above `bound` and at most `value`, which is above it.
    [[nodiscard]] std::int64_t target(std::int64_t bound, std::int64_t value) const;
    /// Operations that it has.
    [[nodiscard]] std::int64_t operations() const { return operations_; }

    void took_too_long();
    void was_proven();

private:
    double share_ = 0.5;  ///< of the way from bound to value
    std::int64_t operations_ = 2'000'000'000;
};

class Exact final : public Searcher {
public:
    explicit Exact(ExactOptions options = {});
    ~Exact() override;

    /// Needs given costs, their throughput as objective, and a best plan. About a tenth of a second
    /// of the tree; all of HiGHS, which an interruption ends.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    /// What each step does.
    enum class Stage : std::uint8_t { begin, tree, highs };

    [[nodiscard]] Status begin(Engine& engine);
    [[nodiscard]] Status start(Engine& engine);
    void choose_solvers(Engine& engine);
    [[nodiscard]] Status look_further(Engine& engine);
    [[nodiscard]] Status next_target(Engine& engine);
    [[nodiscard]] bool tree_is_over(const Engine& engine) const;
    [[nodiscard]] Status end_tree();
    [[nodiscard]] Status ask_highs(Engine& engine);
    [[nodiscard]] MilpOptions highs_options(const Engine& engine) const;
    void offer(Engine& engine, const std::vector<std::int32_t>& devices);
    [[nodiscard]] Status end_target(Engine& engine);

    ExactOptions options_;
    Stage stage_ = Stage::begin;
    bool highs_follows_ = false;  ///< on the tree
    /// Of ops that must share a device alone: what else the engine's groups join may be worth
    /// parting.
    std::unique_ptr<GroupGraph> groups_;
    LoadProblem load_;
    std::int64_t beyond_ = 0;  ///< more than any load
    std::int64_t bound_ = 0;   ///< no plan is below
    // The tree.
    std::unique_ptr<LoadTree> tree_;
    TargetSchedule schedule_;
    std::int64_t target_ = 0;  ///< it looks for plans below
    std::int64_t left_ = 0;    ///< operations, for this target
    std::int64_t spent_ = 0;   ///< operations, for all targets
    Duration time_given_{0};   ///< of the limit of time, when it began
};

/// Throws UsageError when HiGHS is asked for by name and is not there.
void check_exact_engine(ExactEngine engine);

}  // namespace partita::search
