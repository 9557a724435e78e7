// SPDX-License-Identifier: Apache-2.0
#include "search/core/measurements.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/portfolio/learned.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"
#include "tests/support/fake_clock.h"

namespace partita::search {
namespace {

using plan::Strategy;
using testing::ElementsAre;

const Strategy kTogether = plan::on_devices({0, 0});
const Strategy kThere = plan::on_devices({1, 1});
const Strategy kApart = plan::on_devices({0, 1});

/// Measures these.
class Runner final : public Searcher {
public:
    Runner(std::vector<Strategy> candidates, std::vector<Measured>& measured)
        : candidates_(std::move(candidates)), measured_(measured) {}
    Status step(Engine& engine) override {
        measured_ = engine.measure(candidates_);
        return Status::found;
    }

private:
    std::vector<Strategy> candidates_;
    std::vector<Measured>& measured_;
};

class Runners final : public LearnedSearchers {
public:
    std::unique_ptr<Searcher> make(std::string_view /*name*/, Engine& /*engine*/) override {
        return std::make_unique<Runner>(candidates, measured);
    }
    void finish() override {}

    std::vector<Strategy> candidates;
    std::vector<Measured> measured;
};

// Two independent nodes of 10 us on two GPUs: 20 us together, 10 us apart, which is the bound.
class MeasuredSearch : public testing::Test {
protected:
    SearchResult run(std::vector<std::string> searchers, EngineOptions options = {}) {
        options.searchers = std::move(searchers);
        options.learned = &runners_;
        options.measure = [&](const Strategy& strategy) -> std::optional<Time> {
            ran_.push_back(strategy);
            return time_(strategy);
        };
        return search(plan::make_problem(graph_, machine_, kind_), std::move(options));
    }

    graph::OpGraph graph_ = plan::WorkloadBuilder()
                                .node("a", 10, {}, 1, Bytes{600})
                                .node("b", 10, {}, 1, Bytes{600})
                                .build();
    cost::Machine machine_ = plan::switched_machine(2);
    plan::ProblemOptions kind_;
    Runners runners_;
    std::vector<Strategy> ran_;
    /// As it is here: what lies apart takes long, and nothing on the second device ends.
    std::function<std::optional<Time>(const Strategy&)> time_ =
        [](const Strategy& strategy) -> std::optional<Time> {
        if (strategy == kThere) return std::nullopt;
        return microseconds(strategy == kApart ? 50 : 30);
    };
};

TEST_F(MeasuredSearch, TheBestIsTheOneThatTookTheLeastTime) {
    runners_.candidates = {kApart, kTogether, kThere};
    const SearchResult result = run({"rl"});
    EXPECT_EQ(result.strategy, kTogether);
    EXPECT_EQ(result.measured, microseconds(30));
    EXPECT_EQ(result.measurements, 3);
    EXPECT_EQ(result.evaluation.value, microseconds(20));  // predicted
    EXPECT_EQ(result.status, Status::found);               // though one is at the bound
    ASSERT_EQ(runners_.measured.size(), 3);
    EXPECT_EQ(runners_.measured[0].time, microseconds(50));
    EXPECT_EQ(runners_.measured[0].evaluation.value, microseconds(10));
    EXPECT_EQ(runners_.measured[2].time, std::nullopt);
}

TEST_F(MeasuredSearch, TheSameStrategyRunsOnce) {
    runners_.candidates = {kTogether, kThere, kTogether, kThere};
    const SearchResult result = run({"rl", "rl-hierarchical"});
    EXPECT_THAT(ran_, ElementsAre(kTogether, kThere));
    EXPECT_EQ(result.measurements, 2);
    EXPECT_EQ(runners_.measured[2].time, microseconds(30));
    EXPECT_EQ(result.searcher, "rl");
}

TEST_F(MeasuredSearch, WhatOthersFoundRunsBeforeWhatIsLearned) {
    runners_.candidates = {kTogether};
    const SearchResult result = run({"heft", "rl"});
    ASSERT_EQ(ran_.size(), 2U);
    EXPECT_EQ(ran_[1], kTogether);
    EXPECT_EQ(result.strategy, kTogether);  // heft proved its plan, by value
    EXPECT_EQ(result.searcher, "rl");
    time_ = [](const Strategy&) { return microseconds(1); };
    EXPECT_EQ(run({"heft", "rl"}).searcher, "heft");  // of equals the first stays
}

TEST_F(MeasuredSearch, WhereNothingRunsToItsEndTheBestByValueStays) {
    time_ = [](const Strategy&) { return std::nullopt; };
    runners_.candidates = {kTogether, kApart, kThere};
    const SearchResult result = run({"rl"});
    EXPECT_EQ(result.strategy, kApart);
    EXPECT_EQ(result.measured, std::nullopt);
    EXPECT_EQ(result.measurements, 3);
}

TEST_F(MeasuredSearch, WhatDoesNotFitTheMemoryDoesNotRun) {
    kind_.constraints.memory_limit = Bytes{1'000};
    runners_.candidates = {kTogether, kApart};
    const SearchResult result = run({"rl"});
    EXPECT_THAT(ran_, ElementsAre(kApart));
    EXPECT_EQ(result.measured, microseconds(50));
    EXPECT_EQ(runners_.measured[0].time, std::nullopt);
    EXPECT_GT(runners_.measured[0].evaluation.overflow, Bytes{0});
}

TEST_F(MeasuredSearch, ProgressTellsWhatTheBestTook) {
    std::vector<std::optional<Time>> seen;
    EngineOptions options;
    options.progress = [&](const Progress& progress) { seen.push_back(progress.measured); };
    runners_.candidates = {kThere, kApart, kTogether};
    static_cast<void>(run({"rl"}, options));
    EXPECT_THAT(seen, ElementsAre(std::nullopt, std::nullopt, microseconds(50), microseconds(30)));
}

TEST_F(MeasuredSearch, NothingRunsOnceTheTimeIsUp) {
    const support::FakeClock clock(std::chrono::milliseconds(1));
    EngineOptions options;
    options.time_limit = std::chrono::milliseconds(8);
    options.clock = &clock;
    for (int i = 0; i < 20; ++i) runners_.candidates.push_back(i % 2 == 0 ? kTogether : kApart);
    static_cast<void>(run({"rl"}, options));
    EXPECT_LT(runners_.measured.size(), 8U);
}

TEST(StrategyDigest, TellsStrategiesApart) {
    std::vector<Strategy> different(10, kApart);
    different[1].ops[0].config.devices = plan::DeviceSet::single(1);
    different[2].ops[0].config.axes = {plan::Axis::along(0, 2)};
    different[3].ops[0].config.axes = {plan::Axis::along(1, 2)};
    different[4].ops[0].config.devices = plan::DeviceSet::progression(0, 2, 1);
    different[5].policy.micro_batches = 2;
    different[6].ops[0].update.refetch = true;
    different[7].ops[0].update.accumulate_locally = true;
    different[8].ops[0].recompute = plan::Recompute::full;
    different[9].policy.gather_again = true;
    std::set<std::string> digests;
    for (const Strategy& strategy : different) digests.insert(digest(strategy));
    EXPECT_EQ(digests.size(), different.size());
}

}  // namespace
}  // namespace partita::search
