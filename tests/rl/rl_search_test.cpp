// SPDX-License-Identifier: Apache-2.0
#include "rl/rl_search.h"
#include "base/files.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/files/plan_file.h"
#include "rl/policy_file.h"
#include "rl/rl.h"
#include "search/portfolio/search_run.h"
#include "tests/rl/rl_cases.h"
#include "tests/support/temporary_folder.h"

extern "C" partita::search::LearnedSearchers* partita_make_learned(
    const partita::rl::LearnOptions& options);

namespace partita::rl {
namespace {

using testing::HasSubstr;
using testing::Not;

class Learning : public testing::Test {
protected:
    static search::SearchResult run(const plan::Problem& problem, const LearnOptions& options,
                                    search::EngineOptions engine) {
        const std::unique_ptr<search::LearnedSearchers> learned(partita_make_learned(options));
        engine.learned = learned.get();
        return search::search(problem, std::move(engine));
    }
    static search::SearchResult run(const plan::Problem& problem, const LearnOptions& options,
                                    std::int64_t evaluations,
                                    std::vector<std::string> searchers = {"rl"}) {
        search::EngineOptions engine;
        engine.searchers = std::move(searchers);
        engine.evaluations = evaluations;
        return run(problem, options, std::move(engine));
    }
    /// Every plan takes 321 ms, but one on one device fails.
    static std::optional<Time> measure(const plan::Strategy& strategy) {
        const bool one = std::ranges::all_of(strategy.ops, [&](const plan::OpDecision& op) {
            return op.config.devices == strategy.ops.front().config.devices;
        });
        return one ? std::nullopt : std::optional(microseconds(321'000));
    }

    TemporaryFolder folder_;
    std::filesystem::path policy_ = folder_.path() / "a.policy";
    std::filesystem::path other_ = folder_.path() / "b.policy";
    std::filesystem::path curve_ = folder_.path() / "curve.csv";
    std::filesystem::path picture_ = folder_.path() / "curve.svg";
};

TEST_F(Learning, FindsTheBestPlacementOfASmallWorkload) {
    search::Random random(11);
    Fixture f(support::random_workload(random, 7), plan::switched_machine(2));
    search::EngineOptions engine;
    Time best = Time::max();
    const auto evaluator = plan::make_evaluator(f.problem, engine.scheduler);
    for (unsigned bits = 0; bits < 128; ++bits) {
        std::vector<int> devices;
        for (unsigned i = 0; i < 7; ++i) devices.push_back(static_cast<int>(bits >> i & 1U));
        best = std::min(best, evaluator->evaluate(plan::on_devices(devices)).value);
    }
    EXPECT_EQ(run(f.problem, {}, 1'500).evaluation.value, best);
}

TEST_F(Learning, BeginsWithTheBestPlanOfAPortfolio) {
    search::Random random(3);
    Fixture f(support::random_network(random, 20), plan::switched_machine(4), training());
    const auto before = run(f.problem, {}, 60, {"data-parallel"});
    const auto both = run(f.problem, {}, 60, {"data-parallel", "rl"});
    EXPECT_LE(both.evaluation.value, before.evaluation.value);
}

TEST_F(Learning, SavesWhatZeroShotUsesAndDoesNotChange) {
    search::Random random(3);
    Fixture f(support::random_network(random, 12), plan::switched_machine(2), training());
    static_cast<void>(run(f.problem, {.save_policy = policy_}, 200));
    const std::string saved = read_text_file(policy_);
    static_cast<void>(run(f.problem, {.save_policy = other_}, 200));
    EXPECT_EQ(read_text_file(other_), saved);  // the same seed learns the same

    // Another graph, with types that were never seen.
    Fixture unseen(support::random_workload(random, 30), plan::switched_machine(3));
    const auto result = run(unseen.problem, {.load_policy = policy_, .zero_shot = true}, 100'000);
    EXPECT_EQ(result.status, search::Status::found);
    EXPECT_LE(result.evaluations, RlSearch::kZeroShots);

    static_cast<void>(run(unseen.problem, {.load_policy = policy_, .save_policy = other_}, 100));
    EXPECT_NE(read_text_file(other_), saved);  // went on learning
}

TEST_F(Learning, WritesACurveWithReferences) {
    search::Random random(3);
    Fixture f(support::random_network(random, 12), plan::switched_machine(2));
    static_cast<void>(run(f.problem, {.curve = curve_}, 64));
    EXPECT_THAT(read_text_file(curve_), HasSubstr("\n64,"));
    const std::string svg = read_text_file(picture_);
    for (const char* const name : {"heft", "critical-path", "best so far"}) {
        EXPECT_THAT(svg, HasSubstr(name));
    }
}

TEST_F(Learning, ShowsTheReferencesOfMeasuredRewardsAsTheyRan) {
    search::Random random(3);
    Fixture f(support::random_network(random, 12), plan::switched_machine(2));
    search::EngineOptions engine;
    engine.searchers = {"rl"};
    engine.measure = measure;
    engine.time_limit = std::chrono::milliseconds(100);  // which is over when they run
    static_cast<void>(run(f.problem, {.curve = curve_}, std::move(engine)));
    const std::string svg = read_text_file(picture_);
    EXPECT_THAT(svg, HasSubstr("hash  321<"));
    EXPECT_THAT(svg, Not(HasSubstr("single-device")));
}

TEST_F(Learning, RunsNothingMoreAfterItWasCancelled) {
    search::Random random(3);
    Fixture f(support::random_network(random, 12), plan::switched_machine(2));
    std::atomic<bool> cancelled{false};
    int after = 0;
    search::EngineOptions engine;
    engine.searchers = {"rl"};
    engine.cancelled = &cancelled;
    engine.measure = [&](const plan::Strategy& strategy) {
        if (cancelled) ++after;
        cancelled = true;
        return measure(strategy);
    };
    static_cast<void>(run(f.problem, {.curve = curve_}, std::move(engine)));
    EXPECT_EQ(after, 0);
    EXPECT_THAT(read_text_file(curve_), HasSubstr("samples,seconds"));
    EXPECT_THAT(read_text_file(picture_), Not(HasSubstr("hash")));
}

TEST_F(Learning, RefusesACorruptPolicyBeforeTheSearch) {
    std::ofstream(policy_) << "not a policy";
    EXPECT_THROW(delete partita_make_learned({.load_policy = policy_}), InputError);
}

}  // namespace
}  // namespace partita::rl
