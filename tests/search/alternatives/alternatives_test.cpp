// SPDX-License-Identifier: Apache-2.0
//
// What is said of a change is what the changed strategy is worth, and nothing that is better is left out
// where all changes are tried.
#include "search/alternatives/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "importers/onnx/onnx_importer.h"
#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::Problem;
using plan::Strategy;

plan::ProblemOptions one_step() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

int differing(const Strategy& a, const Strategy& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.ops.size(); ++i) count += a.ops[i] != b.ops[i] ? 1 : 0;
    return count;
}

void expect_true(const Problem& problem, const Strategy& strategy, OpId op,
                 plan::Scheduler scheduler) {
    const Alternatives alternatives = alternatives_of(problem, strategy, op, scheduler, 4);
    const auto evaluator = plan::make_evaluator(problem, scheduler);
    EXPECT_EQ(alternatives.now, plan::score_of(evaluator->evaluate(strategy)));
    ASSERT_FALSE(alternatives.best.empty());
    EXPECT_LE(alternatives.best.size(), 8U);
    const plan::Score* before = nullptr;
    for (const Alternative& each : alternatives.best) {
        EXPECT_FALSE(plan::find_fault(problem, each.strategy));
        EXPECT_EQ(each.score, plan::score_of(evaluator->evaluate(each.strategy)));
        EXPECT_EQ(each.config, each.strategy.config(op));
        EXPECT_EQ(each.changed_ops, differing(strategy, each.strategy));
        EXPECT_GT(each.changed_ops, 0);
        if (before != nullptr) {
            EXPECT_FALSE(each.score.better_than(*before));
        }
        before = &each.score;
    }
    for (std::size_t i = 1; i < alternatives.best.size(); ++i) {
        EXPECT_NE(alternatives.best[i - 1].strategy, alternatives.best[i].strategy);
    }
}

TEST(Alternatives, AreWorthWhatTheChangedStrategyIs) {
    const auto model =
        importers::import_onnx(tests::repository() / "examples/runnable/encoder-layer/model.onnx",
                               {.bindings = {{"batch", 4}, {"sequence", 32}}});
    const cost::Machine machine = plan::machine_of_nodes(2, 2);
    const Problem problem = plan::make_problem(model.graph, machine, one_step());
    const Strategy strategy =
        data_parallel_strategy(problem, plan::DeviceSet::progression(0, 4, 1));
    int tried = 0;
    for (std::size_t i = 0; i < model.graph.op_count(); i += 5) {
        if (!problem.facts().has_forward(OpId(i))) continue;
        ++tried;
        SCOPED_TRACE(model.graph.op(OpId(i)).name);
        expect_true(problem, strategy, OpId(i),
                    tried % 2 == 0 ? plan::Scheduler::pct : plan::Scheduler::rank);
    }
    EXPECT_GT(tried, 3);
}

// All on one of four GPUs: sharing the work is quicker, and there are no layers but this one.
TEST(Alternatives, FindWhatIsBetter) {
    plan::NetworkBuilder build;
    graph::TensorId x = build.source("x", graph::TensorRole::input, {4096, 1024});
    x = build.add("MatMul", {x, build.weight({1024, 4096})}, {{4096, 4096}})[0];
    build.add("Relu", {x}, {{4096, 4096}});
    build.add_outputs();
    const cost::Machine machine = plan::machine_of_nodes(1, 4);
    const Problem problem = plan::make_problem(build.graph, machine, one_step());
    const Strategy strategy = plan::on_devices(std::vector<int>(build.graph.op_count(), 0));
    const OpId product = *build.graph.find_op("MatMul1");
    const Alternatives found =
        alternatives_of(problem, strategy, product, plan::Scheduler::rank, 3);
    EXPECT_TRUE(found.all);
    EXPECT_EQ(found.layers, 1);
    EXPECT_TRUE(found.best.front().score.better_than(found.now));
    EXPECT_GT(found.best.front().config.devices.size(), 1);
}

// In equal layers the change is made in each of them.
TEST(Alternatives, ChangeEqualLayersAlike) {
    const graph::OpGraph graph = plan::equal_layers(6);
    const cost::Machine machine = plan::machine_of_nodes(1, 4);
    const Problem problem = plan::make_problem(graph, machine, one_step());
    const Strategy strategy =
        data_parallel_strategy(problem, plan::DeviceSet::progression(0, 4, 1));
    OpId op;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (graph.op(OpId(i)).type == "MatMul" && graph.op(OpId(i)).block == "layers.2") {
            op = OpId(i);
        }
    }
    const Alternatives found = alternatives_of(problem, strategy, op, plan::Scheduler::rank, 3);
    EXPECT_GT(found.layers, 4);
    int in_all = 0;
    for (const Alternative& each : found.best) {
        if (!each.in_equal_layers) continue;
        ++in_all;
        std::set<std::string> blocks;
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const bool computes = graph.op(OpId(i)).kind == graph::OpKind::compute;
            if (computes && strategy.ops[i] != each.strategy.ops[i]) {
                blocks.insert(graph.op(OpId(i)).block);
            }
        }
        EXPECT_GE(static_cast<std::int64_t>(blocks.size()), found.layers);
    }
    EXPECT_GT(in_all, 0);
}

}  // namespace
}  // namespace partita::search
