// SPDX-License-Identifier: Apache-2.0
//
// Incremental lowering and its timeline equal those of a strategy that is lowered and simulated anew.
#include "plan/incremental_lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/config.h"
#include "plan/incremental_timeline.h"
#include "plan/lower.h"
#include "plan/simulate.h"
#include "tests/plan/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using search::Random;

Strategy without_refetch(Strategy strategy) {
    for (UpdateConfig& update : strategy.updates) update.refetch = false;
    return strategy;
}

/// One task as both say it.
using Row = std::tuple<std::int64_t, std::int64_t, std::uint64_t, std::vector<std::int32_t>>;

/// A strategy that changes at random.
class Changing {
public:
    explicit Changing(std::uint64_t seed)
        : random_(seed),
          micro_batches_(seed % 3 == 0 ? 1 + draw(random_, 3) : 1),
          graph_(random_network(random_, 1 + draw(random_, 7),
                                micro_batches_ > 1 ? Layers::samples_apart : Layers::any)),
          machine_(switched_machine(1 + draw(random_, 6))),
          problem_(make_problem(graph_, machine_, options(seed))),
          cache_(problem_),
          strategy_(without_refetch(random_strategy(random_, problem_, micro_batches_))),
          lowering_(problem_, strategy_, cache_),
          timeline_(resource_count_of(problem_), cache_.lanes().resources()) {
        EXPECT_NE(evaluated(), std::nullopt);
        timeline_.accept();
        lowering_.keep();
    }

    void step() {
        RandomChange drawn = random_change(random_, problem_, micro_batches_);
        for (auto& [op, update] : drawn.updates) update.refetch = false;
        const StrategyChange change{drawn.configs, drawn.updates};
        Strategy next = strategy_;
        apply(next, change);
        if (find_fault(problem_, next)) return;
        ++changes_;
        lowering_.begin(change);
        const std::vector<std::int64_t> loads = least_loads();
        lowering_.look_up();
        expect_less_or_equal(loads, least_loads());
        const auto makespan = evaluated();
        ASSERT_EQ(makespan, simulate(lower(problem_, next), Scheduler::rank).makespan)
            << text_of(problem_, next);
        if (draw(random_, 2) == 0) {
            timeline_.accept();
            lowering_.keep();
            strategy_ = std::move(next);
        } else {
            timeline_.reject();
            lowering_.drop();
        }
    }

    void expect_equal() {
        const TaskGraph graph = lower(problem_, strategy_);
        EXPECT_EQ(rows_of(graph), rows()) << text_of(problem_, strategy_);
        for (const Task& task : graph.tasks) {
            joins_ += task.joined > 0 ? 1 : 0;
            EXPECT_GT(task.duration, Time{0}) << task_name(problem_, task);
        }
        const auto loads = timeline_.graph().loads();
        expect_less_or_equal(least_loads(), {loads.begin(), loads.end()});
        std::vector<Bytes> most = graph.persistent;
        for (const Buffer& buffer : graph.buffers) {
            most[static_cast<std::size_t>(buffer.device)] += buffer.bytes;
        }
        for (std::size_t d = 0; d < most.size(); ++d) EXPECT_LE(most[d], lowering_.most_bytes()[d]);
    }

    [[nodiscard]] int changes() const { return changes_; }
    [[nodiscard]] int joins() const { return joins_; }
    [[nodiscard]] const TimelineEffort& effort() const { return timeline_.effort(); }

private:
    [[nodiscard]] std::vector<std::int64_t> least_loads() const {
        return {lowering_.least_loads().begin(), lowering_.least_loads().end()};
    }
    static void expect_less_or_equal(const std::vector<std::int64_t>& a,
                                     const std::vector<std::int64_t>& b) {
        for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(a[i], b[i]) << "resource " << i;
    }

    static ProblemOptions options(std::uint64_t seed) {
        const bool training = seed % 4 != 0;
        return {.mode = training ? Mode::training : Mode::inference,
                .objective = training ? Objective::step_time : Objective::latency};
    }

    std::optional<Time> evaluated() {
        const auto tasks = lowering_.slots();
        const Csr<std::int32_t>& lanes = cache_.lanes().resources();
        for (auto i = timeline_.graph().lanes(); i < lanes.rows(); ++i) {
            timeline_.graph().add_lane(lanes[i]);
        }
        return timeline_.evaluate(tasks);
    }

    static std::vector<Row> rows_of(const TaskGraph& graph) {
        const Timeline timeline = simulate(graph, Scheduler::rank);
        std::vector<Row> rows;
        for (const TaskId id : timeline.commit_order) {
            const auto i = static_cast<std::size_t>(id);
            const auto lane = graph.lanes[static_cast<std::size_t>(graph.tasks[i].lane)];
            rows.emplace_back(timeline.start[i].raw(), graph.tasks[i].duration.raw(),
                              static_cast<std::uint64_t>(graph.tasks[i].rank),
                              std::vector<std::int32_t>(lane.begin(), lane.end()));
        }
        return rows;
    }

    std::vector<Row> rows() {
        std::vector<Row> rows;
        for (const Slot slot : timeline_.order()) {
            const SlotGraph::Node& node = timeline_.graph()[slot];
            const auto lane = timeline_.graph().resources(node.lane);
            rows.emplace_back(timeline_.start(slot).raw(), node.duration, node.key >> 40U,
                              std::vector<std::int32_t>(lane.begin(), lane.end()));
        }
        return rows;
    }

    Random random_;
    int micro_batches_;
    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
    LayoutCache cache_;
    Strategy strategy_;
    IncrementalLowering lowering_;
    IncrementalTimeline timeline_;
    int changes_ = 0;
    int joins_ = 0;
};

TEST(IncrementalLowering, EqualsLoweringAnew) {
    int changes = 0;
    int joins = 0;
    std::int64_t spliced = 0;
    for (std::uint64_t seed = 1; seed <= 250; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Changing changing(seed);
        changing.expect_equal();
        for (int i = 0; i < 40 && !HasFailure(); ++i) {
            changing.step();
            if (i % 4 == 0) changing.expect_equal();
        }
        changing.expect_equal();
        if (HasFailure()) return;
        changes += changing.changes();
        joins += changing.joins();
        spliced += changing.effort().spliced;
    }
    // It is about something.
    EXPECT_GT(changes, 3'000);
    EXPECT_GT(joins, 50);
    EXPECT_GT(spliced, 100);
}

}  // namespace
}  // namespace partita::plan
