// SPDX-License-Identifier: Apache-2.0
//
// Measuring, with a runtime whose devices are known exactly: a task takes time by its bytes and
// FLOPs times a factor of its own, and runs in the plan's order.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/costs.h"
#include "api/measured_rows.h"
#include "api/pricing.h"
#include "api/profiler.h"
#include "api/transfer_probes.h"
#include "base/error.h"
#include "cost/machine/machine_file.h"
#include "cost/profile/profile_database.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/tasks/task_measurements.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "search/profiling/covering_strategies.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/fusion_prices.h"
#include "tests/support/temporary_folder.h"

namespace partita::api {
namespace {

/// From 1/2 to 2, by what is measured alone.
double factor_of(const std::string& text) {
    const std::uint64_t hash = search::mix(std::hash<std::string>{}(text));
    return 0.5 + 1.5 * static_cast<double>(hash % 1'000) / 999.0;
}

/// What tasks take there, and how long the iteration does.
class MadeUpRuntime final : public runtime::Runtime {
public:
    runtime::ExecuteResult execute(const runtime::ExecuteRequest& request) override {
        ++runs;
        plan::TaskGraph tasks = *request.tasks;
        const plan::TaskMeasurements works(*request.problem, *request.strategy, tasks);
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            tasks.tasks[t].duration = time_of(works, tasks, plan::TaskId(t));
        }
        const auto timeline = plan::replay(tasks, {request.order.begin(), request.order.end()});
        runtime::ExecuteResult result;
        result.hardware = hardware(request.devices, request.problem->machine());
        result.iterations = {timeline->makespan};
        for (const plan::Task& task : tasks.tasks) {
            const Time time = (runs <= slow_runs ? 3 : 1) * task.duration;
            result.times.push_back({time, time, time});
        }
        return result;
    }
    std::unique_ptr<runtime::Ranks> join(const runtime::Launch& /*launch*/,
                                         std::chrono::milliseconds /*timeout*/) override {
        return nullptr;
    }
    void check(const graph::OpGraph& /*graph*/) const override {}
    runtime::Hardware hardware(const std::string& /*devices*/,
                               const cost::Machine& /*machine*/) const override {
        return {.text = "made up", .threads = 1, .is_own = own, .transport = "thought"};
    }
    std::string versions() const override { return "none"; }

    int runs = 0;
    int slow_runs = 0;  ///< so many first ones are disturbed
    bool own = true;

private:
    static Time time_of(const plan::TaskMeasurements& works, const plan::TaskGraph& tasks,
                        plan::TaskId task) {
        const plan::Task& of = tasks.tasks[task.index()];
        std::int64_t base = 100'000 + 100 * of.bytes.raw();
        std::string text = std::to_string(of.bytes.raw()) + name_of(of.collective).data();
        std::int64_t times = 1;
        if (const auto work = works.work(task, {})) {
            text = work->signature.text;
            base = 100'000 + 100 * work->bytes.raw() +
                   20 * static_cast<std::int64_t>(work->flops.raw());
            if (of.kind == plan::TaskKind::accumulate) {  // as often as it adds
                const auto reads = std::ssize(tasks.reads[task.index()]);
                times = std::max<std::int64_t>(1, reads - 1);
            }
        }
        return times * Time(static_cast<std::int64_t>(static_cast<double>(base) * factor_of(text)));
    }
};

class ProfilerTest : public testing::Test {
protected:
    ProfilerTest() {
        search::Random random(7);
        graph_ = plan::random_network(random, 8, plan::Layers::any);
    }

    plan::Problem problem(plan::Mode mode = plan::Mode::training) {
        const Costs costs = load_costs(std::filesystem::exists(file_) ? file_ : "", machine_);
        return {graph_,
                machine_,
                costs.model,
                {.mode = mode,
                 .objective = mode == plan::Mode::training ? plan::Objective::step_time
                                                           : plan::Objective::latency},
                costs.transfers};
    }

    TemporaryFolder folder_;
    std::filesystem::path file_ = folder_.path() / "profile.sqlite";
    cost::Machine machine_ = cost::load_machine("cpu:2");
    graph::OpGraph graph_;
    MadeUpRuntime runtime_;
};

/// All that strategies of one op after another need.
std::set<std::string> texts_of(const plan::Problem& problem,
                               const std::vector<plan::Strategy>& strategies) {
    std::set<std::string> texts;
    for (const plan::Strategy& strategy : strategies) {
        const plan::TaskGraph tasks = plan::lower(problem, strategy);
        const plan::TaskMeasurements works(problem, strategy, tasks);
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            const auto kind = tasks.tasks[t].kind;
            if (kind != plan::TaskKind::forward && kind != plan::TaskKind::backward) continue;
            texts.insert(works.work(plan::TaskId(t), {})->signature.text);
        }
    }
    return texts;
}

TEST_F(ProfilerTest, EveryPartOfASearchedPlanWasMeasured) {
    const plan::Problem first = problem();
    {
        auto database = cost::ProfileDatabase::create(file_);
        Profiler profiler(runtime_, database, {});
        profiler.measure(first, search::covering_strategies(first));
        EXPECT_GT(runtime_.runs, 2);
    }
    const plan::Problem measured = problem();
    search::EngineOptions options;
    options.searchers = search::parse_searchers("mcmc");
    options.evaluations = 200;
    const auto found = search::search(measured, std::move(options));
    const plan::TaskGraph tasks = plan::lower(measured, found.strategy);
    for (const plan::Task& task : tasks.tasks) {
        if (task.kind != plan::TaskKind::forward && task.kind != plan::TaskKind::backward) continue;
        EXPECT_NE(task.source, cost::CostSource::analytic) << task_name(measured, task);
    }
}

TEST_F(ProfilerTest, WhatIsKnownIsNotMeasuredAgain) {
    const plan::Problem first = problem();
    const auto strategies = search::covering_strategies(first);
    auto database = cost::ProfileDatabase::create(file_);
    Profiler profiler(runtime_, database, {});
    profiler.measure(first, strategies);
    const int runs = runtime_.runs;

    Profiler again(runtime_, database, {});
    again.measure(first, strategies);
    EXPECT_EQ(runtime_.runs, runs);
    EXPECT_EQ(again.report().known_runs, std::ssize(strategies));

    Profiler repeated(runtime_, database, {.sources = {}, .repeat = true, .progress = {}});
    repeated.measure(first, strategies);
    EXPECT_EQ(runtime_.runs, runs + std::ssize(strategies));
}

TEST_F(ProfilerTest, CoveringStrategiesAreLegalAndHaveAllThatOthersHave) {
    const plan::Problem first = problem();
    const auto strategies = search::covering_strategies(first);
    for (const plan::Strategy& strategy : strategies) {
        EXPECT_EQ(find_fault(first, strategy), std::nullopt);
    }
    const std::set<std::string> covered = texts_of(first, strategies);
    const plan::Strategy& one = strategies.front();
    for (std::size_t op = 0; op < graph_.op_count(); ++op) {
        for (const plan::Strategy& other : strategies) {
            plan::Strategy mixed = one;
            mixed.ops[op] = other.ops[op];
            for (const std::string& text : texts_of(first, {mixed})) {
                EXPECT_TRUE(covered.contains(text)) << text;
            }
        }
    }
}

TEST_F(ProfilerTest, TransfersAreMeasuredByKindAndSize) {
    auto database = cost::ProfileDatabase::create(file_);
    Profiler profiler(runtime_, database, {});
    measure_transfers(profiler, machine_);
    std::set<std::string> kinds;
    std::set<std::int64_t> sizes;
    for (const auto& row : database.read(cost::device_key(machine_.device(0))).transfers) {
        kinds.insert(row.copy ? "copy" : std::string(name_of(row.kind)));
        sizes.insert(row.bytes.raw());
        EXPECT_EQ(row.variant, "thought");
    }
    EXPECT_TRUE(kinds.contains("copy"));
    EXPECT_TRUE(kinds.contains("all-reduce"));
    EXPECT_GT(sizes.size(), 10U);
    EXPECT_GE(*sizes.rbegin(), std::int64_t{32} << 20);
}

TEST_F(ProfilerTest, WhatSharesADeviceMeasuresNoTransfers) {
    runtime_.own = false;
    auto database = cost::ProfileDatabase::create(file_);
    Profiler profiler(runtime_, database, {});
    const plan::Problem first = problem();
    profiler.measure(first, search::covering_strategies(first));
    const auto rows = database.read(cost::device_key(machine_.device(0)));
    EXPECT_TRUE(rows.transfers.empty());
    EXPECT_FALSE(rows.works.empty());
}

TEST_F(ProfilerTest, AnInterruptedCallGoesOnWhereItWas) {
    const plan::Problem first = problem();
    const auto strategies = search::covering_strategies(first);
    auto database = cost::ProfileDatabase::create(file_);
    std::atomic<bool> cancelled{false};
    ProfilerOptions options{.sources = {}, .cancelled = &cancelled, .progress = {}};
    options.progress = [&](double share, const std::string& /*text*/) { cancelled = share >= 0.5; };
    Profiler profiler(runtime_, database, options);
    profiler.measure(first, strategies);
    EXPECT_TRUE(profiler.report().interrupted);
    const auto before = runtime_.runs;
    EXPECT_GT(before, 0);

    Profiler rest(runtime_, database, {});
    rest.measure(first, strategies);
    EXPECT_FALSE(rest.report().interrupted);
    MadeUpRuntime fresh;
    TemporaryFolder other;
    auto whole = cost::ProfileDatabase::create(other.path() / "profile.sqlite");
    Profiler at_once(fresh, whole, {});
    at_once.measure(first, strategies);
    EXPECT_EQ(runtime_.runs, fresh.runs);
}

TEST_F(ProfilerTest, OfSeveralRoundsTheQuickestCounts) {
    const plan::Problem first = problem();
    const auto strategies = search::covering_strategies(first);
    const auto measured = [&](int slow_runs, int rounds) {
        MadeUpRuntime runtime;
        runtime.slow_runs = slow_runs;
        const TemporaryFolder folder;
        auto database = cost::ProfileDatabase::create(folder.path() / "profile.sqlite");
        Profiler profiler(runtime, database, {.sources = {}, .rounds = rounds, .progress = {}});
        profiler.measure(first, strategies);
        EXPECT_EQ(profiler.report().rows.size(), 1U);
        std::map<std::string, Time> times;
        for (const auto& row : database.read(cost::device_key(machine_.device(0))).works) {
            times[row.signature.text] = row.time.median;
        }
        return times;
    };
    const auto quiet = measured(0, 1);
    EXPECT_EQ(measured(static_cast<int>(strategies.size()), 2), quiet);
    EXPECT_NE(measured(static_cast<int>(strategies.size()), 1), quiet);
}

// Planning by what was measured, and measuring what was planned, ends at a plan whose prediction is
// what it takes; and that is no slower than any plan on the way. Parts are equal here: unequal ones
// are all priced by the largest.
TEST_F(ProfilerTest, PlanExecuteUpdateConverges) {
    graph_ = plan::two_layers();
    constexpr int kMostRounds = 25;
    std::optional<plan::Strategy> last;
    std::vector<Time> measured;
    for (int round = 0; round < kMostRounds; ++round) {
        const plan::Problem now = problem();
        search::EngineOptions options;
        options.searchers = search::parse_searchers("data-parallel,mcmc");
        options.evaluations = 300;
        const auto found = search::search(now, std::move(options));
        const plan::Priced priced =
            plan::price(now, found.strategy, plan::Scheduler::pct, plan::Listed::all);
        const auto result = runtime_.execute({.problem = &now,
                                              .strategy = &found.strategy,
                                              .tasks = &priced.tasks,
                                              .order = priced.timeline->commit_order,
                                              .devices = "",
                                              .sources = {},
                                              .learning_rate = {},
                                              .expected = {}});
        measured.push_back(result.iterations.front());
        if (last == found.strategy) {
            EXPECT_EQ(priced.timeline->makespan, measured.back());
            EXPECT_EQ(measured.back(), std::ranges::min(measured));
            return;
        }
        last = found.strategy;
        auto database = cost::ProfileDatabase::create(file_);
        add_rows(database,
                 measured_rows({now, found.strategy, priced.tasks, result}, "none", round));
    }
    FAIL() << "no fixed point in " << kMostRounds << " rounds";
}

// Planned by what was known then, executed by what is known now: any plan, in any round.
TEST_F(ProfilerTest, PlansOfAllRoundsKeepTheirTasksByThePricesOfAllRounds) {
    std::vector<plan::Plan> plans;
    search::Random random(3);
    int others = 0;  // by prices alone tasks would be others
    constexpr int kRounds = 12;
    for (int round = 0; round < kRounds; ++round) {
        if (round == kRounds / 2) {
            support::write_fusion_profile(file_, support::Fusions::dear, machine_);
        }
        const plan::Problem now = problem();
        const plan::Strategy drawn = plan::random_strategy(random, now, 1);
        if (find_fault(now, drawn)) continue;
        plans.push_back(plan::make_plan(now, drawn, {.searcher = "hand"}));
        for (const plan::Plan& plan : plans) {
            EXPECT_THAT(plan::verify(now, plan, {.ignore_costs = true}), testing::IsEmpty());
            const plan::Strategy strategy = plan::strategy_of(plan, now);
            const plan::Priced priced = price_as_planned(now, strategy, plan);
            EXPECT_EQ(plan::collectives_of(now, priced.tasks), plan.collectives);
            EXPECT_EQ(priced.timeline->commit_order, plan.commit_order);
            const plan::Priced anew =
                plan::price(now, strategy, plan::Scheduler::pct, plan::Listed::all);
            others += anew.tasks.size() != priced.tasks.size() ? 1 : 0;
            const auto result = runtime_.execute({.problem = &now,
                                                  .strategy = &strategy,
                                                  .tasks = &priced.tasks,
                                                  .order = plan.commit_order,
                                                  .devices = "",
                                                  .sources = {},
                                                  .learning_rate = {},
                                                  .expected = {}});
            auto database = cost::ProfileDatabase::create(file_);
            add_rows(database, measured_rows({now, strategy, priced.tasks, result}, "none", round));
        }
    }
    EXPECT_GT(plans.size(), 5U);
    EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace partita::api
