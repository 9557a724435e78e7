// SPDX-License-Identifier: Apache-2.0
//
// `execute --check`: a plan that computes what one device computes passes, whatever its loss is;
// one in which a single device leaves out a single update does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "runtime/execute/check.h"
#include "runtime/execute/differences.h"
#include "runtime/execute/execute.h"
#include "search/support/random.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;

constexpr int kCheckedDevices = 4;

/// One layer of each: LSTM, product, softmax over its columns.
OpGraph recurrent_classifier() {
    constexpr std::int64_t kSteps = 5;
    constexpr std::int64_t kBatch = 4;
    constexpr std::int64_t kUnits = 48;
    constexpr std::int64_t kClasses = 200;
    plan::NetworkBuilder builder;
    const TensorId x = builder.source("x", TensorRole::input, {kSteps, kBatch, kUnits});
    const Shape gates = {1, 4 * kUnits, kUnits};
    const auto steps =
        builder.add("LSTM", {x, builder.weight(gates), builder.weight(gates)},
                    {{kSteps, 1, kBatch, kUnits}}, plan::attribute("hidden_size", kUnits));
    const auto scores = builder.add("MatMul", {steps[0], builder.weight({kUnits, kClasses})},
                                    {{kSteps, 1, kBatch, kClasses}});
    builder.add("Softmax", scores, {{kSteps, 1, kBatch, kClasses}},
                plan::attribute("axis", std::int64_t{-1}));
    builder.add_outputs();
    return std::move(builder.graph);
}

ExecuteResult checked(const plan::Problem& problem, const plan::Strategy& strategy) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    ExecuteRequest request;
    request.problem = &problem;
    request.strategy = &strategy;
    request.tasks = &tasks;
    request.order = timeline.commit_order;
    request.devices = "cpu:2";
    request.sources.random_weights = 1;
    request.warmup = 0;
    request.iterations = 1;
    request.check = true;
    return execute(request);
}

// The columns of a softmax add up to 1, so the gradient of their sum is 0: what is computed are
// rounding errors, which differ as soon as sums are taken in another order.
TEST(Check, OfASumOverASoftmaxPasses) {
    const OpGraph graph = recurrent_classifier();
    const cost::Machine machine = plan::switched_machine(kCheckedDevices);
    const plan::Policy policy{.loss = plan::LossKind::sum};
    const plan::Problem problem = plan::make_problem(graph, machine,
                                                     {.mode = plan::Mode::training,
                                                      .objective = plan::Objective::step_time,
                                                      .policy = policy,
                                                      .constraints = {},
                                                      .input_sample_dims = {1}});
    int legal = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        search::Random random(seed);
        plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        strategy.policy = policy;
        if (plan::find_fault(problem, strategy)) continue;
        ++legal;
        for (const Difference& each : checked(problem, strategy).differences) {
            EXPECT_TRUE(each.ok()) << each.what << ": " << each.absolute << " is " << each.relative
                                   << "; seed " << seed << ", " << text_of(problem, strategy);
        }
    }
    EXPECT_GE(legal, 5);
}

/// Updates a parameter, and puts back what the device had of it.
class LeftOut final : public Work {
public:
    /// Says in `changes` whether there was anything to put back.
    LeftOut(std::unique_ptr<Work> update, std::vector<plan::BufferId> copies, bool& changes)
        : update_(std::move(update)), copies_(std::move(copies)), changes_(changes) {}
    void run(Store& store) override {
        std::vector<at::Tensor> old;
        for (const plan::BufferId copy : copies_) old.push_back(store[copy].clone());
        update_->run(store);
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            changes_ = changes_ || !store[copies_[i]].equal(old[i]);
            store[copies_[i]].copy_(old[i]);
        }
    }

private:
    std::unique_ptr<Work> update_;
    std::vector<plan::BufferId> copies_;
    bool& changes_;
};

/// A network in training, with Adam's or another's steps, under some strategy.
class CheckOfUpdates : public testing::TestWithParam<plan::Optimizer> {
protected:
    CheckOfUpdates()
        : graph_(plan::two_layers()),
          machine_(plan::switched_machine(kCheckedDevices)),
          problem_(plan::make_problem(graph_, machine_,
                                      {.mode = plan::Mode::training,
                                       .objective = plan::Objective::step_time,
                                       .policy = policy_})),
          sources_(graph_, {.model = nullptr, .random_weights = 1, .inputs = {}}) {}

    /// Steps of a program may be changed before it runs.
    using Change = std::function<void(const plan::TaskGraph&, Program&)>;

    Outcome outcome(const plan::Strategy& strategy, const Change& change) {
        const plan::TaskGraph tasks = plan::lower(problem_, strategy);
        const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
        Placement placement;
        for (int d = 0; d < kCheckedDevices; ++d) {
            placement.worker.push_back(d % 2);
            placement.device.emplace_back(at::kCPU);
        }
        Program program = make_program(problem_, strategy, tasks, timeline.commit_order, sources_,
                                       placement, {.keep_gradients = true});
        change(tasks, program);
        Executor executor(problem_, tasks, std::move(program), placement, {});
        return outcome_of(executor, checked_rates(problem_, 1e-2));
    }

    std::vector<std::string> failures(const plan::Strategy& strategy, const Change& change) {
        const auto whole = plan::whole_ops(std::vector<int>(graph_.op_count(), 0), policy_);
        const Outcome alone = outcome(whole, [](const auto&, const auto&) {});
        std::vector<std::string> failed;
        for (const Difference& each :
             differences_between(graph_, policy_.optimizer, outcome(strategy, change), alone)) {
            if (!each.ok()) failed.push_back(each.what);
        }
        return failed;
    }

    /// Buffers in which the device keeps the part that a task updates; none: it has a copy for the
    /// update, or others send it new values, too.
    static std::vector<plan::BufferId> copies(const plan::TaskGraph& tasks, plan::TaskId id) {
        const plan::Task& task = tasks.tasks[id.index()];
        const plan::BufferId updated = tasks.writes[id.index()][0];
        const graph::Region& region = (*tasks.regions)[buffer_of(tasks, updated).region];
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            if (!tasks.tasks[t].updated || tasks.tasks[t].tensor != task.tensor) continue;
            for (const plan::BufferId b : tasks.writes[t]) {
                if (buffer_of(tasks, b).device == task.device) return {};
            }
        }
        std::vector<plan::BufferId> found;
        for (std::size_t b = 0; b < tasks.buffers.size(); ++b) {
            const plan::Buffer& buffer = tasks.buffers[b];
            if (buffer.writer.valid() || buffer.tensor != task.tensor) continue;
            if (buffer.device != task.device || buffer.region < 0) continue;
            if (contains((*tasks.regions)[buffer.region], region)) {
                found.emplace_back(b);
            }
        }
        return found;
    }
    static Step& step_of(Program& program, plan::TaskId task) {
        for (auto& steps : program.steps) {
            const auto step = std::ranges::find(steps, task, &Step::task);
            if (step != steps.end()) return *step;
        }
        throw std::logic_error("no step of task " + std::to_string(task.value));
    }

    plan::Policy policy_{.optimizer = GetParam(), .loss = plan::LossKind::mse};
    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Problem problem_;
    Sources sources_;
};

// Parameters that were compared themselves, to a thousandth of their largest, hid every one of
// them.
TEST_P(CheckOfUpdates, FindsOneThatOneDeviceLeavesOut) {
    int left_out = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        search::Random random(seed);
        plan::Strategy strategy = plan::random_strategy(random, problem_, 1);
        strategy.policy = policy_;
        if (plan::find_fault(problem_, strategy)) continue;
        EXPECT_EQ(failures(strategy, [](const auto&, const auto&) {}), std::vector<std::string>());
        const plan::TaskGraph tasks = plan::lower(problem_, strategy);
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            const plan::TaskId id(t);
            if (tasks.tasks[t].kind != plan::TaskKind::update) continue;
            const std::vector<plan::BufferId> copies = CheckOfUpdates::copies(tasks, id);
            if (copies.empty()) continue;
            bool changes = false;  // or all units behind it are off
            const std::string expected =
                "update of '" + graph_.tensor(tasks.tasks[t].tensor).name + "'";
            const auto failed = failures(strategy, [&](const plan::TaskGraph&, Program& program) {
                Step& step = step_of(program, id);
                step.work = std::make_unique<LeftOut>(std::move(step.work), copies, changes);
            });
            left_out += changes ? 1 : 0;
            EXPECT_EQ(failed, std::vector<std::string>(changes ? 1 : 0, expected))
                << "seed " << seed << ", device " << tasks.tasks[t].device;
        }
    }
    EXPECT_GE(left_out, 12);
}

INSTANTIATE_TEST_SUITE_P(Of, CheckOfUpdates,
                         testing::Values(plan::Optimizer::sgd, plan::Optimizer::momentum,
                                         plan::Optimizer::adam),
                         [](const auto& each) { return std::string(name_of(each.param)); });

// A tolerance of 1 would let an update pass that is left out.
TEST(Check, ToleratesAtMostHalfOfAnUpdate) {
    using graph::DType;
    EXPECT_EQ(update_tolerance_of(DType::float64), 1e-8);
    EXPECT_EQ(update_tolerance_of(DType::float32), 1e-2);
    EXPECT_EQ(update_tolerance_of(DType::float16), 0.2);
    EXPECT_EQ(update_tolerance_of(DType::bfloat16), 0.5);
    EXPECT_EQ(update_tolerance_of(DType::float8e5m2), 0.5);
}

}  // namespace
}  // namespace partita::runtime
