// SPDX-License-Identifier: Apache-2.0
#include <partita/search.h>

#include <algorithm>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/api/networks.h"

namespace partita {
namespace {

using testing::IsEmpty;

/// Enough for a search that only a stop ends.
constexpr std::int64_t kEndless = 1'000'000'000;

struct FindPlan : testing::Test {
    Model model{tests::convnet(64)};
    Machine machine = Machine::load("dgx-1-v100");
    PlanOptions options{
        .mode = Mode::training, .searchers = {"auto", "mcmc"}, .evaluations = 400, .threads = 1};

    [[nodiscard]] SearchResult find() const { return find_plan(model, machine, options); }
};

TEST_F(FindPlan, PricedAgainItsDecisionsAreTheSamePlan) {
    options.micro_batches = 1;
    options.schedule = Schedule::none;
    const Plan found = find().plan();
    const Plan priced =
        price(model, machine, found.ops(),
              {.mode = Mode::training, .micro_batches = 1, .schedule = Schedule::none});
    EXPECT_EQ(priced.value(), found.value());
    EXPECT_EQ(priced.lower_bound(), std::nullopt);
    EXPECT_EQ(priced.ops(), found.ops());
    EXPECT_THAT(priced.verify(model), IsEmpty());
}

TEST_F(FindPlan, PricesADecisionThatIsChangedAndRefusesAnIllegalOne) {
    options.searchers = {"single-device"};
    std::vector<OpPlan> ops = find().plan().ops();
    const PlanOptions training{.mode = Mode::training};
    const Time before = price(model, machine, ops, training).value();
    const auto conv = std::ranges::find(ops, "/left/Conv", &OpPlan::name);
    ASSERT_NE(conv, ops.end());
    const std::vector<int> own = conv->devices;
    conv->devices = {own[0] == 0 ? 1 : 0};
    EXPECT_GT(price(model, machine, ops, training).value(), before);  // its operands travel
    conv->degrees = {{"no-such-factor", 2}};
    EXPECT_THAT([&] { static_cast<void>(price(model, machine, ops, training)); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("/left/Conv")));
    ops.erase(conv);
    EXPECT_THAT([&] { static_cast<void>(price(model, machine, ops, training)); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("/left/Conv")));
}

TEST(ModelOfAGraph, TakesTheOptionsOfAFile) {
    const Model model(tests::mlp(8), {.precision = DType::bfloat16});
    for (const OpInfo& op : model.ops()) {
        if (op.type != "Parameter") continue;
        EXPECT_EQ(model.tensor(op.results[0]).dtype, DType::bfloat16) << op.name;
    }
    EXPECT_NE(model.digest(), Model(tests::mlp(8)).digest());
}

TEST_F(FindPlan, ProgressIsMonotone) {
    std::vector<Progress> seen;
    options.threads = 4;
    options.progress = [&seen](const Progress& progress) { seen.push_back(progress); };
    const SearchResult result = find();
    ASSERT_GT(seen.size(), 10U);
    for (std::size_t i = 1; i < seen.size(); ++i) {
        EXPECT_GE(seen[i].evaluations, seen[i - 1].evaluations);
        EXPECT_GE(seen[i].elapsed, seen[i - 1].elapsed);
        EXPECT_EQ(seen[i].lower_bound, seen[i - 1].lower_bound);
        if (seen[i - 1].best) {
            ASSERT_TRUE(seen[i].best);
            EXPECT_LE(*seen[i].best, *seen[i - 1].best);
        }
    }
    EXPECT_EQ(seen.back().evaluations, result.evaluations);
    EXPECT_EQ(seen.back().best, result.plan().value());
    EXPECT_EQ(seen.back().lower_bound, result.lower_bound);
    EXPECT_LE(result.lower_bound, result.plan().value());
}

TEST_F(FindPlan, AStopFromTheCallbackEndsWithALegalPlan) {
    std::stop_source stop;
    options.evaluations = kEndless;
    options.stop = stop.get_token();
    std::optional<Time> best;
    options.progress = [&](const Progress& progress) {
        best = progress.best;
        if (progress.evaluations >= 100) stop.request_stop();
    };
    const SearchResult result = find();
    EXPECT_EQ(result.status, Status::budget_exhausted);
    EXPECT_GE(result.evaluations, 100);
    EXPECT_LT(result.evaluations, 1'000);
    EXPECT_EQ(result.plan().value(), best);
    EXPECT_THAT(result.plan().verify(model), IsEmpty());
}

TEST_F(FindPlan, AStopFromAnotherThreadEndsWithALegalPlan) {
    std::stop_source stop;
    std::promise<void> running;
    options.evaluations = kEndless;
    options.threads = 2;
    options.stop = stop.get_token();
    bool said = false;
    options.progress = [&](const Progress&) {
        if (!said) running.set_value();
        said = true;
    };
    std::thread other([&] {
        running.get_future().wait();
        stop.request_stop();
    });
    const SearchResult result = find();
    other.join();
    EXPECT_EQ(result.status, Status::budget_exhausted);
    EXPECT_THAT(result.plan().verify(model), IsEmpty());
}

TEST_F(FindPlan, AStopBeforehandStillGivesALegalPlan) {
    std::stop_source stop;
    stop.request_stop();
    options.evaluations = kEndless;
    options.stop = stop.get_token();
    const SearchResult result = find();
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_THAT(result.plan().verify(model), IsEmpty());
}

TEST_F(FindPlan, WhatTheCallbackThrowsReachesTheCaller) {
    options.progress = [](const Progress&) { throw std::domain_error("enough"); };
    EXPECT_THROW(static_cast<void>(find()), std::domain_error);
}

TEST_F(FindPlan, SameSeedSameBytesWithAnyNumberOfThreads) {
    const std::string json = find().plan().json();
    EXPECT_EQ(find().plan().json(), json);
    options.threads = 3;
    EXPECT_EQ(find().plan().json(), json);
}

TEST_F(FindPlan, AnotherSeedIsAnotherSearch) {
    options.searchers = {"random"};
    options.evaluations = 5;
    const std::string json = find().plan().json();
    options.seed = 2;
    EXPECT_NE(find().plan().json(), json);
}

TEST_F(FindPlan, SearchesSideBySideDoNotMeet) {
    const std::string alone = find().plan().json();
    auto first = std::async(std::launch::async, [this] { return find().plan().json(); });
    auto second = std::async(std::launch::async, [this] { return find().plan().json(); });
    EXPECT_EQ(first.get(), alone);
    EXPECT_EQ(second.get(), alone);
}

TEST_F(FindPlan, StartsFromAPlanAndNeverGetsWorse) {
    const SearchResult long_one = find();
    options.start = long_one.plan();
    options.searchers = {"random"};
    options.evaluations = 3;
    EXPECT_LE(find().plan().value(), long_one.plan().value());
}

TEST_F(FindPlan, InfeasibleSaysWhatIsShort) {
    options.memory_limit = Bytes(1'000);
    const SearchResult result = find();
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_FALSE(result.feasible());
    EXPECT_FALSE(result.gap);
    EXPECT_EQ(result.shortage,
              "op 'x' and what must lie with it keep 768 KiB (786432 bytes), 97304 bytes more than "
              "the roomiest device they may use can hold. Use a device with more memory, or a "
              "higher --memory-limit.");
    EXPECT_THROW(static_cast<void>(result.plan()), UsageError);
}

TEST_F(FindPlan, EverySearcherOfTheListIsOne) {
    options.evaluations = 20;
    for (const SearcherInfo& searcher : searchers()) {
        options.searchers = {searcher.name};
        EXPECT_THAT(find().plan().verify(model), IsEmpty()) << searcher.name;
    }
}

}  // namespace
}  // namespace partita
