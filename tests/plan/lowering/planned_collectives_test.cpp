// SPDX-License-Identifier: Apache-2.0
//
// A plan keeps its tasks and its order by any prices.
#include "plan/lowering/planned_collectives.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"
#include "tests/support/fusion_prices.h"
#include "tests/support/random_profile.h"

namespace partita::plan {
namespace {

using search::Random;
using support::Fusions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// All of a task but what it costs, and how urgent that makes it.
Task without_price(Task task) {
    task.duration = Time{};
    task.source = cost::CostSource::analytic;
    task.priority = 0;
    return task;
}

TaskGraph without_prices(TaskGraph tasks) {
    for (Task& task : tasks.tasks) task = without_price(task);
    return tasks;
}

std::vector<std::string> names_of(const Problem& problem, const TaskGraph& tasks) {
    std::vector<std::string> names;
    for (const Task& task : tasks.tasks) names.push_back(task_name(problem, task));
    return names;
}

/// Tasks, edges, buffers and who reads them, memory; not prices.
void expect_same_tasks(const Problem& problem, const TaskGraph& actual, const TaskGraph& expected) {
    ASSERT_EQ(names_of(problem, actual), names_of(problem, expected));
    EXPECT_EQ(digest(without_prices(actual)), digest(without_prices(expected)));
    EXPECT_EQ(collectives_of(problem, actual), collectives_of(problem, expected));
    EXPECT_EQ(actual.successors.items, expected.successors.items);
    EXPECT_EQ(actual.reads.items, expected.reads.items);
    EXPECT_EQ(actual.reads.offsets, expected.reads.offsets);
    EXPECT_EQ(actual.writes.items, expected.writes.items);
    EXPECT_EQ(actual.writes.offsets, expected.writes.offsets);
    EXPECT_EQ(actual.persistent, expected.persistent);
    EXPECT_EQ(actual.ranks.items, expected.ranks.items);
}

/// The same tasks, the same order, and verify() has nothing against it.
void expect_kept(const Problem& problem, const Plan& plan, const TaskGraph& expected) {
    EXPECT_THAT(verify(problem, plan, {.ignore_costs = true}), IsEmpty());
    const TaskGraph actual = lower_as_planned(problem, strategy_of(plan, problem), plan);
    expect_same_tasks(problem, actual, expected);
    EXPECT_TRUE(replay(actual, plan.commit_order).has_value());
}

/// What the collectives of a plan cost is what this problem says.
void expect_own_prices(const Problem& problem, const TaskGraph& tasks) {
    for (const Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        const auto devices = tasks.ranks[static_cast<std::size_t>(task.ranks)];
        const auto price = problem.transfers().collective_price(
            {.kind = task.collective, .devices = devices, .bytes = task.bytes});
        EXPECT_EQ(task.duration, price.time) << task_name(problem, task);
        EXPECT_EQ(task.source, price.source) << task_name(problem, task);
    }
}

/// A random network with the problems of several prices, and a random strategy.
struct Case {
    explicit Case(std::uint64_t seed)
        : random(seed),
          micro_batches(seed % 3 == 0 ? 1 + draw(random, 3) : 1),
          graph(random_network(random, 1 + draw(random, 6),
                               micro_batches > 1 ? Layers::samples_apart : Layers::any)),
          machine(switched_machine(4)) {
        options.mode = seed % 4 == 0 ? Mode::inference : Mode::training;
        options.objective = seed % 4 == 0 ? Objective::latency : Objective::step_time;
        options.policy.micro_batches = micro_batches;
        problems.push_back(make_problem(graph, machine, options));
        const Problem& analytic = problems.front();
        strategy = random_strategy(random, analytic, micro_batches);
        for (int i = 0; i < 2; ++i) {
            profiles.push_back(support::random_profile(random, analytic));
        }
        profiles.push_back(support::fusion_profile(Fusions::cheap, machine));
        profiles.push_back(support::fusion_profile(Fusions::dear, machine));
        problems.reserve(1 + profiles.size());  // `analytic` is one of them
        for (const cost::Profile& profile : profiles) {
            problems.push_back(support::with_profile(problems.front(), profile, options));
        }
    }

    Random random;
    int micro_batches;
    graph::OpGraph graph;
    cost::Machine machine;
    ProblemOptions options;
    Strategy strategy;
    std::vector<cost::Profile> profiles;
    std::vector<Problem> problems;
};

TEST(PlannedCollectives, KeepTasksAndOrderByAnyPrices) {
    int kept = 0;
    int differ = 0;
    for (const std::uint64_t seed : support::seeds(40)) {
        const Case of(seed);
        if (find_fault(of.problems.front(), of.strategy)) continue;
        for (std::size_t a = 0; a < of.problems.size(); ++a) {
            const Problem& planned = of.problems[a];
            const Plan plan = parse_plan(
                to_json(make_plan(planned, of.strategy, {.searcher = "hand"})), "plan.json");
            const TaskGraph tasks = lower(planned, of.strategy);
            for (std::size_t b = 0; b < of.problems.size(); ++b) {
                SCOPED_TRACE(testing::Message()
                             << "seed " << seed << ", prices " << a << " and " << b << "\n"
                             << text_of(planned, of.strategy));
                const Problem& given = of.problems[b];
                expect_kept(given, plan, tasks);
                expect_own_prices(given, lower_as_planned(given, of.strategy, plan));
                differ += lower(given, of.strategy).size() != tasks.size() ? 1 : 0;
                ++kept;
            }
        }
    }
    EXPECT_GT(kept, support::draws(500));
    EXPECT_GT(differ,
              support::draws(25));  // with their own fusions these would not be the plan's tasks
}

/// A layer whose batch is split over four devices, so that each adds up the gradients of weight and
/// bias.
class TwoGradients : public testing::Test {
protected:
    explicit TwoGradients(const cost::Machine& machine = switched_machine(4)) : machine_(machine) {
        const auto x = add_source(graph_, "x", graph::TensorRole::input, {8, 6});
        const auto w = add_source(graph_, "w", graph::TensorRole::parameter, {6, 10});
        const auto b = add_source(graph_, "b", graph::TensorRole::parameter, {10});
        graph_.add_output("y", add_compute(graph_, "fc", "Gemm", {x, w, b}, {8, 10}));
        for (const char* factor : {"d0", "*", "*", "m", "d0"}) {
            const graph::OpId op(strategy_.ops.size());
            strategy_.ops.push_back({.config = {.axes = axes_named(graph_, op, {{factor, 4}}),
                                                .devices = DeviceSet::progression(0, 4, 1)}});
        }
    }
    [[nodiscard]] Problem problem(Fusions fusions, const cost::Machine& machine) const {
        const ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        return support::with_profile(make_problem(graph_, machine, options),
                                     support::fusion_profile(fusions, machine), options);
    }
    [[nodiscard]] Problem problem(Fusions fusions) const { return problem(fusions, machine_); }
    [[nodiscard]] static std::vector<std::string> collectives(const Problem& of,
                                                              const TaskGraph& tasks) {
        std::vector<std::string> names;
        for (const PlannedCollective& each : collectives_of(of, tasks)) names.push_back(each.task);
        return names;
    }
    [[nodiscard]] std::vector<std::string> collectives(const Problem& of, const Plan& plan) const {
        return collectives(of, lower_as_planned(of, strategy_, plan));
    }

    cost::Machine machine_;
    graph::OpGraph graph_;
    Strategy strategy_;
};

TEST_F(TwoGradients, AreFusedWhereThePlanHasThemFused) {
    const Problem cheap = problem(Fusions::cheap);
    const Problem dear = problem(Fusions::dear);
    const Plan joined = make_plan(cheap, strategy_, {.searcher = "hand"});
    const Plan apart = make_plan(dear, strategy_, {.searcher = "hand"});
    for (const Problem* given : {&cheap, &dear}) {
        EXPECT_THAT(collectives(*given, joined), ElementsAre("all-reduce b.grad +1 gpu0"));
        EXPECT_THAT(collectives(*given, apart),
                    ElementsAre("all-reduce b.grad gpu0", "all-reduce w.grad gpu0"));
    }
}

TEST_F(TwoGradients, GoByThePlansAlgorithm) {
    const ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    const Problem analytic = make_problem(graph_, machine_, options);
    const Problem measured = problem(Fusions::dear);
    const Plan plan = make_plan(analytic, strategy_, {.searcher = "hand"});
    ASSERT_NE(plan.collectives[0].algorithm, cost::Algorithm::library);
    const TaskGraph tasks = lower_as_planned(measured, strategy_, plan);
    EXPECT_EQ(collectives_of(measured, tasks), plan.collectives);
    const TaskGraph own = lower(measured, strategy_);
    EXPECT_EQ(collectives_of(measured, own)[0].algorithm, cost::Algorithm::library);
}

// Which machine it is does not matter, nor what its devices are called.
TEST_F(TwoGradients, AreThoseOfThePlanOnAnotherMachine) {
    const cost::Machine same = switched_machine(4);
    std::vector<cost::Device> devices(same.devices().begin(), same.devices().end());
    for (cost::Device& device : devices) device.name = "other" + device.name;
    const cost::Machine renamed{
        "other", devices, {"switch"}, {same.links().begin(), same.links().end()}};
    for (const Fusions fusions : {Fusions::cheap, Fusions::dear}) {
        const Plan plan = make_plan(problem(fusions), strategy_, {.searcher = "hand"});
        const std::size_t count = plan.collectives.size();
        for (const Fusions given : {Fusions::cheap, Fusions::dear}) {
            EXPECT_EQ(collectives(problem(given, renamed), plan).size(), count);
        }
    }
}

// That is no plan, but anybody may write such a file.
TEST_F(TwoGradients, OfAPlanWhoseMachineLacksDevicesAreNotItsOwn) {
    for (OpDecision& op : strategy_.ops) op.config.devices = DeviceSet::list({3, 2, 1, 0});
    const Problem dear = problem(Fusions::dear);
    Plan plan = make_plan(dear, strategy_, {.searcher = "hand"});
    EXPECT_THAT(collectives(dear, plan),
                ElementsAre("all-reduce b.grad gpu3", "all-reduce w.grad gpu3"));
    plan.machine = switched_machine(2);
    EXPECT_THAT(collectives(dear, plan), ElementsAre("all-reduce b.grad +1 gpu3"));
}

TEST_F(TwoGradients, AreListedOrVerifyRefusesThePlan) {
    const Problem given = problem(Fusions::cheap);
    const Plan apart = make_plan(problem(Fusions::dear), strategy_, {.searcher = "hand"});
    const auto finding = [&](const Plan& plan) {
        const auto findings = verify(given, plan, {.ignore_costs = true});
        return findings.empty() ? "accepted" : findings.front();
    };
    EXPECT_EQ(finding(apart), "accepted");
    EXPECT_THAT(verify(given, apart).front(), HasSubstr("costs: the plan was made for digest"));
    Plan plan = apart;
    plan.collectives.pop_back();
    EXPECT_THAT(finding(plan), HasSubstr("collectives[1]: the plan has nothing more, the strategy "
                                         "needs 'all-reduce w.grad gpu0' by library"));
    plan.collectives.clear();
    EXPECT_THAT(finding(plan), HasSubstr("the strategy needs 'all-reduce b.grad +1 gpu0'"));
    plan = apart;
    plan.collectives[0].task = "all-reduce b.grad +1 gpu0";
    EXPECT_THAT(finding(plan), HasSubstr("collectives[0]: the plan has"));
    plan = apart;
    plan.collectives.push_back(plan.collectives[0]);
    EXPECT_THAT(finding(plan), HasSubstr("collectives[2]: the plan has"));
}

}  // namespace
}  // namespace partita::plan
