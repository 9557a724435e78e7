// SPDX-License-Identifier: Apache-2.0
//
// Gradients in one bucket are reduced after all that their devices owe to other stages. That incremental
// and folded lowerings have the same edges is held by their own tests, whose random policies have one bucket, too.
#include "plan/lowering/reduction_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/support/random.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/plan/strategy/random_pipelines.h"
#include "tests/support/draws.h"

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

bool is_reduction(const Problem& problem, const Task& task) {
    if (task.kind != TaskKind::collective || !task.gradient) return false;
    const graph::OpId producer = problem.graph().tensor(task.tensor).producer;
    return problem.graph().op(producer).kind == graph::OpKind::parameter;
}

/// How often a reduction of a parameter's gradients comes after a gradient that one of its devices sends; all
/// must, of the last micro-batch: until then gradients add up.
int waits_for_sent(const Problem& problem, const Strategy& strategy) {
    const int micro_batches = problem.policy().micro_batches;
    const int last = micro_batches > 1 ? micro_batches - 1 : -1;
    const TaskGraph tasks = lower(problem, strategy);
    const Timeline timeline = simulate(tasks, Scheduler::rank);
    int waits = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Task& reduction = tasks.tasks[i];
        if (!is_reduction(problem, reduction)) continue;
        const auto ranks = tasks.ranks[static_cast<std::size_t>(reduction.ranks)];
        for (std::size_t j = 0; j < tasks.size(); ++j) {
            const Task& copy = tasks.tasks[j];
            const bool is_owed = copy.kind == TaskKind::copy && copy.gradient &&
                                 problem.facts().is_activation(copy.tensor) &&
                                 copy.micro_batch == last &&
                                 std::ranges::find(ranks, copy.device) != ranks.end();
            if (!is_owed) continue;
            EXPECT_GE(timeline.start[i], timeline.start[j] + copy.duration);
            ++waits;
        }
    }
    return waits;
}

TEST(ReductionsInOneBucket, ComeAfterWhatTheirDevicesSendInAnyPipeline) {
    int waits = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        search::Random random(seed);
        RandomPipeline of(random, /*training=*/true);
        of.options.policy.bucket_bytes = kOneBucket;
        const Problem problem = make_problem(of.graph, of.machine, of.options);
        const auto strategy =
            random_pipeline(random, problem, draw_stages(random, problem, of.stages));
        if (strategy) waits += waits_for_sent(problem, *strategy);
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(waits, support::draws(1'000));
}

TEST(ReductionsInOneBucket, ComeAfterWhatTheirDevicesSendWhereNothingAddsUp) {
    int waits = 0;
    for (const std::uint64_t seed : support::seeds(1'000)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        search::Random random(seed);
        const graph::OpGraph graph = random_network(random, 8, Layers::any);
        const cost::Machine machine = switched_machine(4);
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.bucket_bytes = kOneBucket;
        const Problem problem = make_problem(graph, machine, options);
        Strategy strategy = random_strategy(random, problem, 1);
        for (OpDecision& decision : strategy.ops) decision.update.refetch = false;
        waits += waits_for_sent(problem, strategy);
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(waits, support::draws(1'000));
}

}  // namespace
}  // namespace partita::plan
