// SPDX-License-Identifier: Apache-2.0
//
// Gradients in one bucket are reduced after all that their devices owe to other stages. That incremental
// and folded lowerings have the same edges is held by their own tests, whose random policies have one bucket, too.
#include "plan/lowering/reduction_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

/// Layers of ops without weights and a product: the gradient of its weight is there before that which goes
/// to the stage before.
graph::OpGraph layers_with_weights_last(int count) {
    NetworkBuilder build;
    graph::TensorId t = build.source("x", graph::TensorRole::input, {64, 32});
    for (int i = 0; i < count; ++i) {
        const std::size_t first = build.graph.op_count();
        for (int j = 0; j < 6; ++j) t = build.add("Gelu", {t}, {{64, 32}})[0];
        t = build.add("MatMul", {t, build.weight({32, 32})}, {{64, 32}})[0];
        for (std::size_t op = first; op < build.graph.op_count(); ++op) {
            build.graph.op(graph::OpId(op)).block = "layers." + std::to_string(i);
        }
    }
    build.add_outputs();
    return std::move(build.graph);
}

/// Six layers in three stages, the batch over two devices each, in one micro-batch: nothing adds up.
class OfThreeStages : public testing::Test {
protected:
    OfThreeStages() {
        options_.mode = Mode::training;
        options_.objective = Objective::step_time;
    }

    void lower_with(std::optional<Bytes> bucket) {
        options_.policy.bucket_bytes = bucket;
        problem_.emplace(make_problem(graph_, machine_, options_));
        tasks_ = lower(*problem_, in_stages());
        timeline_ = simulate(tasks_, Scheduler::pct);
    }
    /// Data parallelism on two devices for each two layers.
    [[nodiscard]] Strategy in_stages() const {
        Strategy strategy =
            search::data_parallel_strategy(*problem_, DeviceSet::progression(0, 2, 1));
        int stage = 0;
        for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
            const graph::Op& op = graph_.op(graph::OpId(i));
            const graph::Op& of = op.kind == graph::OpKind::parameter
                                      ? graph_.op(graph_.uses(op.outputs[0])[0].op)
                                      : op;
            if (!of.block.empty()) stage = (of.block.back() - '0') / 2;
            strategy.ops[i].config.devices = DeviceSet::progression(2 * stage, 2, 1);
        }
        return strategy;
    }
    [[nodiscard]] Time end(std::size_t task) const {
        return timeline_.start[task] + tasks_.tasks[task].duration;
    }
    /// Copies of gradients of activations that leave a device of the reduction.
    [[nodiscard]] std::vector<std::size_t> sent_by_ranks_of(std::size_t reduction) const {
        const auto ranks = tasks_.ranks[static_cast<std::size_t>(tasks_.tasks[reduction].ranks)];
        std::vector<std::size_t> sent;
        for (std::size_t i = 0; i < tasks_.size(); ++i) {
            const Task& task = tasks_.tasks[i];
            const bool leaves = task.kind == TaskKind::copy && task.gradient &&
                                std::ranges::find(ranks, task.device) != ranks.end();
            if (leaves) sent.push_back(i);
        }
        return sent;
    }
    [[nodiscard]] std::vector<std::size_t> reductions() const {
        std::vector<std::size_t> found;
        for (std::size_t i = 0; i < tasks_.size(); ++i) {
            if (tasks_.tasks[i].kind == TaskKind::collective && tasks_.tasks[i].gradient)
                found.push_back(i);
        }
        return found;
    }

    graph::OpGraph graph_ = layers_with_weights_last(6);
    cost::Machine machine_ = switched_machine(6);
    ProblemOptions options_;
    std::optional<Problem> problem_;
    TaskGraph tasks_;
    Timeline timeline_;
};

TEST_F(OfThreeStages, ReductionsInOneBucketComeAfterWhatTheirDevicesSend) {
    lower_with(kOneBucket);
    ASSERT_EQ(reductions().size(), 3U);  // one of each stage
    int sent = 0;
    for (const std::size_t reduction : reductions()) {
        for (const std::size_t copy : sent_by_ranks_of(reduction)) {
            ++sent;
            EXPECT_GE(timeline_.start[reduction], end(copy));
        }
    }
    EXPECT_GT(sent, 0);
}

}  // namespace
}  // namespace partita::plan
