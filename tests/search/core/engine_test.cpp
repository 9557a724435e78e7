// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/search_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/small_problems.h"
#include "tests/support/fake_clock.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using plan::WorkloadBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

/// Proposes placements of two ops on two devices, in this order, one batch.
template <int first_a, int first_b, int second_a, int second_b>
class TwoProposals final : public Searcher {
public:
    Status step(Engine& engine) override {
        const std::array strategies{plan::on_devices({first_a, first_b}),
                                    plan::on_devices({second_a, second_b})};
        static_cast<void>(engine.evaluate(strategies));
        return Status::found;
    }
};

/// Draws placements for ever.
class Endless final : public Searcher {
public:
    Status step(Engine& engine) override {
        Placement placement(engine.groups().size());
        for (auto& device : placement) {
            device = static_cast<int>(
                engine.random().below(static_cast<std::uint64_t>(engine.problem().device_count())));
        }
        const auto evaluation = engine.evaluate(engine.groups().strategy(placement));
        if (evaluation)
            engine.count_acceptances(1,
                                     evaluation->value == engine.best_evaluation()->value ? 1 : 0);
        return Status::in_progress;
    }
};

/// Says that what the engine holds is proven.
class Prover final : public Searcher {
public:
    Status step(Engine& engine) override {
        if (engine.best() == nullptr) {
            static_cast<void>(engine.evaluate(plan::on_devices({1, 1})));
        }
        return Status::optimal;
    }
};

/// Says of what the engine holds that nothing is below so many microseconds.
template <int bound>
class Claimer final : public Searcher {
public:
    Status step(Engine& engine) override {
        if (engine.best() == nullptr) {
            static_cast<void>(engine.evaluate(plan::on_devices({1, 1})));
        }
        engine.state_numerical_bound(microseconds(bound), "a solver");
        return Status::found;
    }
};

template <class S>
SearcherRow row(std::string_view name) {
    return {.name = name, .summary = "", .make = [](Engine&) {
                return std::unique_ptr<Searcher>(std::make_unique<S>());
            }};
}

// Two independent nodes of 10 us on two GPUs: 20 us together, 10 us apart, which is the bound.
class TwoNodes : public testing::Test {
protected:
    SearchResult run(std::vector<SearcherRow> rows, EngineOptions options = {}) {
        return search(problem_, std::move(options), rows);
    }

    graph::OpGraph graph_ = WorkloadBuilder().node("a", 10).node("b", 10).build();
    cost::Machine machine_ = plan::switched_machine(2);
    Problem problem_ = plan::make_problem(graph_, machine_);
};

using ClaimsTheValue = Claimer<20>;
using ClaimsTooMuch = Claimer<21>;
using ClaimsWhatIsProven = Claimer<10>;
using BothTogether = TwoProposals<0, 0, 1, 1>;
using SameTwice = TwoProposals<0, 0, 0, 0>;
using TogetherThenApart = TwoProposals<0, 0, 0, 1>;

TEST_F(TwoNodes, ANumericalBoundIsNoProof) {
    const SearchResult result = run({row<ClaimsTheValue>("claims")});
    EXPECT_EQ(result.status, Status::found);
    EXPECT_EQ(result.lower_bound, microseconds(10));
    EXPECT_EQ(result.gap, 1.0);
    ASSERT_TRUE(result.numerical_bound);
    EXPECT_EQ(result.numerical_bound->value, microseconds(20));
    EXPECT_EQ(result.numerical_bound->gap, 0.0);
    EXPECT_EQ(result.numerical_bound->by, "a solver");
}

TEST_F(TwoNodes, ANumericalBoundThatAPlanRefutesIsOnlyNoted) {
    const SearchResult result = run({row<ClaimsTooMuch>("claims")});
    EXPECT_FALSE(result.numerical_bound);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("a solver says that no plan is below")));
    const SearchResult later =
        run({row<ClaimsTheValue>("claims"), row<TogetherThenApart>("later")});
    EXPECT_FALSE(later.numerical_bound);
    EXPECT_EQ(later.status, Status::optimal);
    EXPECT_EQ(later.notes.size(), 1);
}

TEST_F(TwoNodes, ANumericalBoundAtTheProvenOneIsNotSaid) {
    EXPECT_FALSE(run({row<ClaimsWhatIsProven>("claims")}).numerical_bound);
}

TEST_F(TwoNodes, OfEqualStrategiesTheFirstStays) {
    const SearchResult result = run({row<BothTogether>("both")});
    EXPECT_EQ(result.strategy, plan::on_devices({0, 0}));
    EXPECT_EQ(result.evaluations, 2);
    EXPECT_EQ(result.status, Status::found);
}

TEST_F(TwoNodes, ARepeatedStrategyIsNoEvaluation) {
    const SearchResult result = run({row<SameTwice>("same"), row<SameTwice>("again")});
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_EQ(result.searcher, "same");
}

TEST_F(TwoNodes, AValueAtTheBoundIsOptimal) {
    const SearchResult result = run({row<TogetherThenApart>("apart"), row<BothTogether>("later")});
    EXPECT_EQ(result.status, Status::optimal);
    EXPECT_EQ(result.lower_bound, microseconds(10));
    EXPECT_EQ(result.gap, 0.0);
    EXPECT_EQ(result.searcher, "apart");
    EXPECT_EQ(result.evaluations, 2);  // the later searcher is not needed
}

/// Prices one strategy, is granted what is left, and confirms a better one.
class Granted final : public Searcher {
public:
    static inline std::vector<std::int64_t> grants;
    Status step(Engine& engine) override {
        static_cast<void>(engine.evaluate(plan::on_devices({0, 0})));
        grants = {engine.grant(3), engine.grant(10), engine.grant(10)};
        const std::array better{plan::on_devices({0, 0}), plan::on_devices({0, 1})};
        engine.confirm(better);
        return Status::found;
    }
};

TEST_F(TwoNodes, GrantedEvaluationsCountAndConfirmedOnesDoNot) {
    EngineOptions options;
    options.evaluations = 8;
    const SearchResult result = run({row<Granted>("g")}, options);
    EXPECT_EQ(result.evaluations, 8);
    EXPECT_THAT(Granted::grants, ElementsAre(3, 4, 0));
    EXPECT_EQ(result.strategy, plan::on_devices({0, 1}));
}

/// Remembers what share of the budget was spent after each of three evaluations.
class Spender final : public Searcher {
public:
    static inline std::vector<std::optional<double>> shares;
    Status step(Engine& engine) override {
        shares.clear();
        for (const int device : {0, 1, 0}) {
            static_cast<void>(engine.evaluate(plan::on_devices({device, device})));
            shares.push_back(engine.spent());
        }
        return Status::found;
    }
};

TEST_F(TwoNodes, TheShareOfTheBudgetThatIsSpentIsKnown) {
    static_cast<void>(run({row<Spender>("spender")}));
    EXPECT_THAT(Spender::shares, ElementsAre(std::nullopt, std::nullopt, std::nullopt));
    EngineOptions options;
    options.evaluations = 4;
    static_cast<void>(run({row<Spender>("spender")}, options));
    EXPECT_THAT(Spender::shares, ElementsAre(0.25, 0.5, 0.75));
    const support::FakeClock clock(std::chrono::milliseconds(1));
    options.time_limit = std::chrono::milliseconds(1);
    options.clock = &clock;
    static_cast<void>(run({row<Spender>("spender")}, options));
    EXPECT_GE(Spender::shares.back(), 1.0);  // of time all of it, of evaluations less
}

/// Counts its own evaluations.
template <int number>
class Counter final : public Searcher {
public:
    static inline std::int64_t count = 0;
    static inline std::vector<double> shares;
    Counter() {
        count = 0;
        shares.clear();
    }
    Status step(Engine& engine) override {
        const int device = static_cast<int>((count + number) % 2);
        if (engine.evaluate(plan::on_devices({device, device}))) ++count;
        shares.push_back(*engine.spent());
        return Status::in_progress;
    }
};

TEST_F(TwoNodes, EachSearcherMaySpendAnEqualShareOfWhatIsLeft) {
    EngineOptions options;
    options.evaluations = 11;
    const std::vector<SearcherRow> rows{row<BothTogether>("both"), row<Counter<0>>("first"),
                                        row<Counter<1>>("second")};
    const SearchResult result = run(rows, options);
    EXPECT_EQ(result.evaluations, 11);  // 2 of at most 4, half of the other 9, the rest
    EXPECT_EQ(Counter<0>::count, 5);
    EXPECT_EQ(Counter<1>::count, 4);
    EXPECT_THAT(Counter<1>::shares, ElementsAre(0.25, 0.5, 0.75, 1.0));
    EXPECT_EQ(result.status, Status::budget_exhausted);

    const support::FakeClock clock(std::chrono::milliseconds(1));
    options.evaluations.reset();
    options.time_limit = std::chrono::milliseconds(100);
    options.clock = &clock;
    static_cast<void>(run(rows, options));
    EXPECT_GT(Counter<0>::count, 5);
    EXPECT_NEAR(static_cast<double>(Counter<0>::count), static_cast<double>(Counter<1>::count), 3);
}

TEST_F(TwoNodes, ASearchersProofIsTakenOver) {
    EXPECT_EQ(run({row<Prover>("prover")}).status, Status::optimal);
}

TEST_F(TwoNodes, ALaterSearcherStartsFromTheBestOfTheEarlier) {
    // The prover proposes nothing when there is a best.
    const SearchResult result = run({row<BothTogether>("both"), row<Prover>("prover")});
    EXPECT_EQ(result.evaluations, 2);
    EXPECT_EQ(result.searcher, "both");
}

TEST_F(TwoNodes, BaselineIsPricedButNotCounted) {
    const SearchResult result = run({row<TogetherThenApart>("apart")});
    ASSERT_EQ(result.baselines.size(), 3U);
    EXPECT_EQ(result.baselines[0].name, "single-device");
    EXPECT_EQ(result.baselines[0].value, microseconds(20));
    EXPECT_EQ(result.baselines[1].name, "data-parallel");
    EXPECT_EQ(result.baselines[1].value, std::nullopt);  // given costs are those of whole nodes
    EXPECT_EQ(result.baselines[2].name, "expert");
    EXPECT_EQ(result.evaluations, 2);
}

TEST_F(TwoNodes, AZeroBudgetStillGivesACompletePlan) {
    EngineOptions options;
    options.evaluations = 0;
    const SearchResult result = run({row<BothTogether>("both"), row<Endless>("endless")}, options);
    EXPECT_EQ(result.strategy, plan::on_devices({0, 0}));
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_EQ(result.status, Status::budget_exhausted);
}

TEST_F(TwoNodes, AnExpiredTimeLimitStillGivesACompletePlan) {
    const support::FakeClock clock(std::chrono::seconds(1));
    EngineOptions options;
    options.time_limit = Duration{0};
    options.clock = &clock;
    const SearchResult result = run({row<BothTogether>("both"), row<Endless>("endless")}, options);
    EXPECT_EQ(result.strategy, plan::on_devices({0, 0}));
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_EQ(result.status, Status::budget_exhausted);
}

TEST_F(TwoNodes, CancellingStopsTheSearch) {
    std::atomic<bool> cancelled = true;
    EngineOptions options;
    options.cancelled = &cancelled;
    const SearchResult result = run({row<BothTogether>("both"), row<Endless>("endless")}, options);
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_EQ(result.status, Status::budget_exhausted);
}

TEST_F(TwoNodes, TheStartIsTheFirstCandidate) {
    EngineOptions options;
    options.start = plan::on_devices({1, 1});
    options.evaluations = 1;
    const SearchResult result = run({row<Endless>("endless")}, options);
    EXPECT_EQ(result.strategy, plan::on_devices({1, 1}));
    EXPECT_EQ(result.searcher, "import-plan");
}

TEST_F(TwoNodes, AStartWithAnotherPolicyIsRefused) {
    const graph::OpGraph graph = plan::two_layers();
    ProblemOptions options;
    const auto accepts = [&](int micro_batches) {
        const Problem problem = plan::make_problem(graph, machine_, options);
        EngineOptions engine;
        engine.start = plan::whole_ops(std::vector<int>(graph.op_count(), 0), {});
        engine.start->policy.micro_batches = micro_batches;
        engine.searchers = {"single-device"};
        try {
            static_cast<void>(search(problem, engine));
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), HasSubstr("Give --micro-batches"));
            return false;
        }
        return true;
    };
    EXPECT_TRUE(accepts(1));
    EXPECT_FALSE(accepts(4));
    options.constraints.most_micro_batches = 4;
    EXPECT_TRUE(accepts(4));
    EXPECT_FALSE(accepts(8));
}

TEST_F(TwoNodes, AStartMayGatherAgainWhatTheProblemDoesNot) {
    const graph::OpGraph graph = plan::two_layers();
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    const Problem problem = plan::make_problem(graph, machine_, options);
    EngineOptions engine;
    engine.start = plan::whole_ops(std::vector<int>(graph.op_count(), 0), {});
    engine.start->policy.gather_again = true;
    engine.evaluations = 1;
    engine.searchers = {"single-device"};
    EXPECT_EQ(search(problem, engine).strategy, *engine.start);
}

TEST_F(TwoNodes, AnIllegalStartIsRefused) {
    ProblemOptions constraints;
    constraints.constraints.allowed = {{0}};
    constraints.constraints.together = {{graph::OpId(0U), graph::OpId(1U)}};
    const Problem problem = plan::make_problem(graph_, machine_, constraints);
    const auto refuse = [&](const std::vector<int>& devices) -> std::string {
        EngineOptions options;
        options.start = plan::whole_ops(devices, {});
        try {
            static_cast<void>(search(problem, options));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_EQ(refuse({0, 0}), "accepted");
    EXPECT_THAT(refuse({1, 1}), HasSubstr("device 1 is not among those it may use"));
    EXPECT_THAT(refuse({0, 1}), HasSubstr("ops 'a' and 'b' must share their devices"));
    EXPECT_THAT(refuse({0}), HasSubstr("places 1 ops, the model has 2"));
}

TEST_F(TwoNodes, ProgressTellsWhatIsKnown) {
    std::vector<std::int64_t> evaluations;
    EngineOptions options;
    options.progress = [&](const Progress& progress) {
        evaluations.push_back(progress.evaluations);
        EXPECT_EQ(progress.lower_bound, microseconds(10));
        EXPECT_EQ(progress.best, microseconds(20));
    };
    static_cast<void>(run({row<BothTogether>("both"), row<SameTwice>("same")}, options));
    EXPECT_THAT(evaluations, ElementsAre(2, 3));
}

TEST_F(TwoNodes, AnUnknownSearcherIsRefused) {
    EngineOptions options;
    options.searchers = {"heft", "nobody"};
    EXPECT_THROW(static_cast<void>(search(problem_, options)), UsageError);
}

TEST(Engine, EvaluationsStopExactlyAtTheirBudget) {
    const graph::OpGraph graph = support::chain_network(40);
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine);
    EngineOptions options;
    options.evaluations = 57;
    const std::array rows{row<Endless>("endless")};
    const SearchResult result = search(problem, options, rows);
    EXPECT_EQ(result.evaluations, 57);
    EXPECT_EQ(result.status, Status::budget_exhausted);
    EXPECT_TRUE(result.acceptance_rate.has_value());
}

TEST(Engine, TheSeedDecidesTheResult) {
    Random random(11);
    const graph::OpGraph graph = support::random_network(random, 40);
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine);
    const auto result = [&](std::uint64_t seed) {
        EngineOptions options;
        options.evaluations = 1;
        options.seed = seed;
        const std::array rows{row<Endless>("endless")};
        return search(problem, options, rows).strategy;
    };
    EXPECT_EQ(result(5), result(5));
    EXPECT_FALSE(result(5) == result(6));
}

TEST(Engine, ContradictingConstraintsAreInfeasible) {
    const graph::OpGraph graph = WorkloadBuilder().node("a", 1).node("b", 1).build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.constraints.allowed = {{0}, {1}};
    options.constraints.together = {{graph::OpId(0U), graph::OpId(1U)}};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, {});
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_THAT(result.shortage, HasSubstr("'a' and 'b' must share a device"));
}

TEST(Engine, TooLittleMemoryIsInfeasibleAndSaysHowMuch) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 1, {}, 1, Bytes{700}).node("b", 1, {}, 1, Bytes{700}).build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.constraints.memory_limit = Bytes{650};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, {});
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_THAT(result.shortage, HasSubstr("50 bytes more than the roomiest device"));
    // Each fits alone, both do not: only the two devices together hold them.
    options.constraints.memory_limit = Bytes{1000};
    options.constraints.allowed = {{0}, {0}};
    const Problem fixed = plan::make_problem(graph, machine, options);
    const SearchResult fixed_result = search(fixed, {});
    EXPECT_EQ(fixed_result.status, Status::infeasible);
    EXPECT_THAT(fixed_result.shortage, HasSubstr("gpu0 needs 1.37 KiB (1400 bytes)"));
    EXPECT_THAT(fixed_result.shortage, HasSubstr("400 bytes short"));
    EXPECT_EQ(fixed_result.strategy.ops.size(), 2U);
}

TEST(Engine, SingleDeviceFallsBackToASlowerDeviceThatHoldsEverything) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 1, {}, 1, Bytes{700})
                                     .node("b", 1, {"a"}, 1, Bytes{700})
                                     .build();
    const cost::Machine switched = plan::switched_machine(3);
    std::vector<cost::Device> devices(switched.devices().begin(), switched.devices().end());
    devices[0].memory = Bytes{1000};
    devices[1].memory = Bytes{1000};
    devices[2].kind = cost::DeviceKind::cpu;  // ten times slower
    devices[2].model = "host";
    const cost::Machine machine("mixed", devices, {"switch"},
                                {switched.links().begin(), switched.links().end()});
    const Problem problem = plan::make_problem(graph, machine);
    EngineOptions options;
    options.searchers = {"single-device"};
    const SearchResult result = search(problem, options);
    EXPECT_EQ(result.strategy, plan::on_devices({2, 2}));
    EXPECT_EQ(result.evaluation.value, microseconds(20));
    EXPECT_EQ(result.baselines[0].value, microseconds(20));
    EXPECT_EQ(result.evaluations, 2);  // one small GPU and the CPU
}

TEST(Searchers, AListNamesThemInOrder) {
    EXPECT_THAT(parse_searchers("heft,random"), ElementsAre("heft", "random"));
    EXPECT_THROW(parse_searchers("heft,"), UsageError);
    try {
        parse_searchers("hft");
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("unknown searcher 'hft'. Known are auto, "));
    }
}

}  // namespace
}  // namespace partita::search
