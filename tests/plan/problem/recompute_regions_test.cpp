// SPDX-License-Identifier: Apache-2.0
//
// What may be computed once more for the backward, and what a strategy may say of it.
#include "plan/problem/recompute_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorId;
using graph::TensorRole;
using testing::ElementsAre;
using testing::HasSubstr;

/// Two layers of attention and a product, each with a residual, behind a product of no layer.
class Regions : public testing::Test {
protected:
    Regions() : machine_(switched_machine(2)) {
        TensorId x = add_source(graph_, "x", TensorRole::input, {4, 8, 8});
        x = op("", "embed", "MatMul", {x, weight("embed.w")}, {4, 8, 8});
        for (const char* const block : {"layers.0", "layers.1"}) {
            const auto named = [&](const char* name) { return std::string(block) + "/" + name; };
            const TensorId q =
                op(block, named("q"), "MatMul", {x, weight(named("q.w"))}, {4, 8, 8});
            const TensorId k =
                op(block, named("k"), "MatMul", {x, weight(named("k.w"))}, {4, 8, 8});
            TensorId s = op(block, named("scores"), "MatMul", {q, k}, {4, 8, 8});
            s = op(block, named("softmax"), "Softmax", {s}, {4, 8, 8});
            s = op(block, named("context"), "MatMul", {s, x}, {4, 8, 8});
            x = op(block, named("residual"), "Add", {x, s}, {4, 8, 8});
        }
        graph_.add_output("y", op("", "head", "Relu", {x}, {4, 8, 8}));
    }

    TensorId weight(const std::string& name) {
        return add_source(graph_, name, TensorRole::parameter, {8, 8});
    }
    TensorId op(const std::string& block, const std::string& name, const char* type,
                std::vector<TensorId> operands, graph::Shape shape) {
        return add_compute(graph_, name, type, std::move(operands), std::move(shape), {}, block);
    }

    Problem problem(Recompute recompute, Mode mode = Mode::training) {
        const bool training = mode == Mode::training;
        return make_problem(graph_, machine_,
                            {.mode = mode,
                             .objective = training ? Objective::step_time : Objective::latency,
                             .policy = {.recompute = recompute}});
    }

    [[nodiscard]] std::vector<std::string> names(const std::vector<OpId>& ops) const {
        std::vector<std::string> names;
        for (const OpId op : ops) names.push_back(graph_.op(op).name);
        return names;
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
};

TEST_F(Regions, AreOfLayersThatComeMoreThanOnce) {
    const Problem problem = this->problem(Recompute::automatic);
    const auto& blocks = problem.facts().recompute().blocks();
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(blocks[0].name, "layers.0");
    EXPECT_EQ(blocks[1].name, "layers.1");
    EXPECT_EQ(problem.facts().recompute().block_of(*graph_.find_op("embed")), nullptr);
    EXPECT_EQ(problem.facts().recompute().block_of(*graph_.find_op("layers.1/scores")),
              &problem.facts().recompute().blocks()[1]);
}

TEST_F(Regions, AreNoneUnlessAskedFor) {
    EXPECT_FALSE(problem(Recompute::none).facts().recompute().any());
    EXPECT_FALSE(problem(Recompute::full, Mode::inference).facts().recompute().any());
}

// The context and the residual go to nobody who needs them again in the block; x is kept.
TEST_F(Regions, HoldWhatTheBackwardReads) {
    const Problem problem = this->problem(Recompute::automatic);
    const LayerBlock& block = problem.facts().recompute().blocks()[0];
    const RecomputeRegion* const full = block.region(Recompute::full);
    ASSERT_NE(full, nullptr);
    EXPECT_THAT(names(full->ops),
                ElementsAre("layers.0/q", "layers.0/k", "layers.0/scores", "layers.0/softmax"));
    EXPECT_THAT(names(full->first), ElementsAre("layers.0/q", "layers.0/k"));
    EXPECT_EQ(graph_.op(full->before).name, "layers.0/context");
    EXPECT_EQ(graph_.tensor(full->awaited).name, "layers.0/context.out");
    const RecomputeRegion* const selective = block.region(Recompute::selective);
    ASSERT_NE(selective, nullptr);
    EXPECT_THAT(names(selective->ops), ElementsAre("layers.0/scores", "layers.0/softmax"));
    EXPECT_THAT(names(selective->first), ElementsAre("layers.0/scores"));
}

TEST_F(Regions, RunAgainBetweenForwardAndBackwardAndNotBeforeTheirTurn) {
    const Problem problem = this->problem(Recompute::full);
    Strategy strategy = whole_ops(std::vector<int>(graph_.op_count(), 0), problem.policy());
    apply_recompute(problem.facts().recompute(), strategy);
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
    const TaskGraph tasks = lower(problem, strategy);
    std::vector<std::string> order;
    for (const TaskId id : simulate(tasks, Scheduler::fifo).commit_order) {
        const Task& task = tasks.tasks[id.index()];
        const bool shown =
            task.kind == TaskKind::recompute ||
            (task.kind == TaskKind::backward && graph_.op(task.op).type == "Softmax");
        if (shown) order.push_back(task_name(problem, task));
    }
    EXPECT_THAT(order, ElementsAre("recompute layers.1/q", "recompute layers.1/k",
                                   "recompute layers.1/scores", "recompute layers.1/softmax",
                                   "backward layers.1/softmax", "recompute layers.0/q",
                                   "recompute layers.0/k", "recompute layers.0/scores",
                                   "recompute layers.0/softmax", "backward layers.0/softmax"));
}

TEST_F(Regions, AreRecomputedAsWholes) {
    const Problem free = problem(Recompute::automatic);
    Strategy strategy = whole_ops(std::vector<int>(graph_.op_count(), 0), free.policy());
    EXPECT_EQ(find_fault(free, strategy), std::nullopt);
    const LayerBlock& block = free.facts().recompute().blocks()[1];
    for (const Recompute choice : {Recompute::full, Recompute::selective}) {
        set_recompute(block, choice, strategy);
        EXPECT_EQ(recompute_of(block, strategy), choice);
        EXPECT_EQ(find_fault(free, strategy), std::nullopt);
    }
    const auto fault_with = [&](const char* name, Recompute choice) {
        Strategy other = strategy;
        other.ops[graph_.find_op(name)->index()].recompute = choice;
        return find_fault(free, other).value_or("");
    };
    EXPECT_THAT(fault_with("layers.1/softmax", Recompute::none),
                HasSubstr("op 'layers.1/softmax' (Softmax): recompute: expected \"selective\""));
    EXPECT_THAT(fault_with("layers.1/context", Recompute::selective),
                HasSubstr("got \"selective\""));
    EXPECT_THAT(fault_with("embed", Recompute::full), HasSubstr("expected \"none\""));
    const Problem said = problem(Recompute::full);
    EXPECT_THAT(find_fault(said, strategy).value_or(""),
                HasSubstr("expected \"full\", as its layer block and --recompute full have it"));
}

}  // namespace
}  // namespace partita::plan
