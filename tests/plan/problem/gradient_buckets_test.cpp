// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "search/support/random.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/plan/strategy/random_pipelines.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using graph::OpId;
using search::Random;
using testing::ElementsAre;

constexpr std::int64_t kMiB = 1 << 20;

/// Twelve products with weights of 256 KiB each, and a scale of 1 KiB behind the last one.
class Buckets : public testing::Test {
protected:
    static constexpr int kLayers = 12;

    Buckets() {
        NetworkBuilder build;
        graph::TensorId x = build.source("x", graph::TensorRole::input, {64, 256});
        for (int i = 0; i < kLayers; ++i) {
            weights_.push_back(build.weight({256, 256}));
            x = build.add("MatMul", {x, weights_.back()}, {{64, 256}})[0];
        }
        weights_.push_back(build.weight({256}));
        build.add("Mul", {x, weights_.back()}, {{64, 256}});
        build.add_outputs();
        graph_ = std::move(build.graph);
    }

    [[nodiscard]] Problem problem(std::optional<Bytes> size) const {
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.bucket_bytes = size;
        return make_problem(graph_, machine_, options);
    }
    [[nodiscard]] std::vector<std::size_t> sizes(std::int64_t bytes) const {
        const Problem of = problem(Bytes(bytes));
        std::vector<std::size_t> sizes;
        for (std::size_t i = 0; i < of.facts().buckets().count(); ++i) {
            sizes.push_back(of.facts().buckets().members(i).size());
        }
        return sizes;
    }
    /// Every op in four parts of the batch.
    [[nodiscard]] Strategy data_parallel(int micro_batches, std::optional<Bytes> size) const {
        Strategy strategy;
        strategy.policy.bucket_bytes = size;
        strategy.policy.micro_batches = micro_batches;
        for (const graph::Op& op : graph_.ops()) {
            const bool is_weight = op.kind == graph::OpKind::parameter;
            const Axis axis = is_weight ? Axis::replicas(4) : Axis::along(0, 4);
            OpDecision decision{
                .config = {.axes = {axis}, .devices = DeviceSet::progression(0, 4, 1)}};
            decision.update.accumulate_locally = is_weight && micro_batches > 1;
            strategy.ops.push_back(decision);
        }
        return strategy;
    }

    graph::OpGraph graph_;
    std::vector<graph::TensorId> weights_;
    cost::Machine machine_ = switched_machine(4);
};

// As PyTorch's compute_bucket_assignment_by_size(): what comes last in the forward comes first, the
// first bucket is full at 1 MiB, and one that is not full takes what makes it fuller than full.
TEST_F(Buckets, AreFilledInReverseOrder) {
    EXPECT_THAT(sizes(2 * kMiB), ElementsAre(5, 8));
    EXPECT_THAT(sizes(kMiB), ElementsAre(5, 4, 4));
    EXPECT_THAT(sizes(kMiB / 2), ElementsAre(3, 2, 2, 2, 2, 2));
    EXPECT_THAT(sizes(3 * kMiB / 8), ElementsAre(3, 2, 2, 2, 2, 2));
    EXPECT_THAT(sizes(1), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
    EXPECT_THAT(sizes(kOneBucket.raw()), ElementsAre(13));
    const Problem of = problem(Bytes(2 * kMiB));
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        EXPECT_EQ(of.facts().buckets().of(graph_.tensor(weights_[i]).producer), i < 8 ? 1 : 0);
    }
    EXPECT_EQ(of.facts().buckets().of(OpId(std::size_t{0})), -1);
    EXPECT_EQ(problem(std::nullopt).facts().buckets().count(), 0u);
}

// What lies between layers, or behind them, is together; without layers each op is by itself.
TEST_F(Buckets, MayBeLayers) {
    EXPECT_THAT(sizes(kLayerBuckets.raw()), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
    const auto put_in_layers = [&](auto layer_of) {
        int product = 0;
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            graph::Op& op = graph_.op(OpId(i));
            if (op.type == "MatMul") op.block = layer_of(product++);
        }
    };
    put_in_layers([](int product) {
        return product < 10 ? "layers." + std::to_string(product / 3) : std::string();
    });
    EXPECT_THAT(sizes(kLayerBuckets.raw()), ElementsAre(3, 1, 3, 3, 3));
    put_in_layers([](int product) {
        return product % 4 < 3 ? "layers." + std::to_string(product / 4) : std::string();
    });
    EXPECT_THAT(sizes(kLayerBuckets.raw()), ElementsAre(2, 3, 1, 3, 1, 3));
    const GradientBuckets buckets = problem(kLayerBuckets).facts().buckets();
    for (const graph::TensorId weight : weights_) {
        const OpId parameter = graph_.tensor(weight).producer;
        EXPECT_EQ(buckets.of_fetches(parameter), buckets.of(parameter));
    }
}

// These lie whole wherever they are read.
TEST_F(Buckets, HaveNoFrozenParameters) {
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.bucket_bytes = Bytes(kMiB);
    options.policy.frozen = {graph_.tensor(weights_[10]).name};
    const Problem of = make_problem(graph_, machine_, options);
    const OpId frozen = graph_.tensor(weights_[10]).producer;
    EXPECT_EQ(of.facts().buckets().of(frozen), -1);
    EXPECT_EQ(of.facts().buckets().of_fetches(frozen), -1);
    EXPECT_EQ(of.facts().buckets().members(0).size(), 5u);
}

// One all-reduce a bucket, when the last of its gradients is there; with micro-batches once an
// iteration (DistributedDataParallel's no_sync()).
TEST_F(Buckets, AreReducedAtOnce) {
    for (const int micro_batches : {1, 4}) {
        for (const std::int64_t size : {kMiB / 2, kMiB, kOneBucket.raw()}) {
            const Problem of = problem(Bytes(size));
            const TaskGraph tasks = lower(of, data_parallel(micro_batches, Bytes(size)));
            std::vector<Bytes> reduced;
            for (std::size_t i = 0; i < tasks.size(); ++i) {
                const Task& task = tasks.tasks[i];
                if (task.kind != TaskKind::collective) continue;
                EXPECT_EQ(task.collective, cost::Collective::all_reduce);
                reduced.push_back(task.bytes);
                EXPECT_EQ(static_cast<std::size_t>(task.fused) + 1,
                          of.facts().buckets().members(reduced.size() - 1).size());
            }
            EXPECT_EQ(reduced.size(), of.facts().buckets().count());
            Bytes all;
            for (const Bytes bytes : reduced) all += bytes;
            EXPECT_EQ(all, Bytes(kLayers * kMiB / 4 + 1024));
        }
    }
}

TEST_F(Buckets, AreNoneUnlessAskedFor) {
    const TaskGraph tasks = lower(problem(std::nullopt), data_parallel(1, std::nullopt));
    const auto collectives = std::ranges::count(tasks.tasks, TaskKind::collective, &Task::kind);
    EXPECT_EQ(collectives, kLayers + 1);
}

/// Can all tasks be done one after the other?
bool has_an_order(const TaskGraph& tasks) {
    std::vector<std::int32_t> waiting = tasks.predecessor_counts;
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (waiting[i] == 0) ready.push_back(i);
    }
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
        const std::size_t task = ready.back();
        ready.pop_back();
        for (const TaskId next : tasks.successors[task]) {
            if (--waiting[next.index()] == 0) ready.push_back(next.index());
        }
    }
    return done == tasks.size();
}

// A gradient may be summed over one set of devices and then over another, and that of another
// parameter the other way round; parameters may be fetched together that ops of other buckets lie
// between.
TEST(BucketsOfAnyPlan, NeverWaitForThemselves) {
    int fused = 0;
    int fetches = 0;
    for (const std::uint64_t seed : support::seeds(4'000)) {
        Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 3);
        graph::OpGraph graph = random_network(
            random, 2 + draw(random, 6), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        if (seed % 2 == 0) graph = in_layer_blocks(random, std::move(graph));
        const cost::Machine machine = switched_machine(2 + draw(random, 10));
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.bucket_bytes = random_buckets(random);
        if (seed % 4 == 0) options.policy.recompute = Recompute::automatic;
        const Problem problem = make_problem(graph, machine, options);
        const TaskGraph tasks = lower(problem, random_strategy(random, problem, micro_batches));
        for (const Task& task : tasks.tasks) {
            fused += task.fused > 0 ? 1 : 0;
            fetches += is_fused_fetch(problem, task) ? 1 : 0;
        }
        ASSERT_TRUE(has_an_order(tasks)) << "seed " << seed;
    }
    EXPECT_GT(fused, support::draws(150));
    EXPECT_GT(fetches, support::draws(15));
}

TEST(BucketsOfAnyPlan, NeverWaitForThemselvesInSchedules) {
    int fused = 0;
    int fetches = 0;
    for (const std::uint64_t seed : support::seeds(500)) {
        Random random(seed);
        RandomPipeline of(random, /*training=*/true);
        of.recompute(random);
        of.options.policy.bucket_bytes = random_buckets(random);
        const Problem problem = make_problem(of.graph, of.machine, of.options);
        RandomStages stages = draw_stages(random, problem, of.stages);
        stages.refetch = true;
        const std::optional<Strategy> strategy = random_pipeline(random, problem, stages);
        if (!strategy) continue;
        const TaskGraph tasks = lower(problem, *strategy);
        for (const Task& task : tasks.tasks) {
            fused += task.fused > 0 && !task.gradient && !task.updated ? 1 : 0;
            fetches += is_fused_fetch(problem, task) ? 1 : 0;
        }
        ASSERT_TRUE(has_an_order(tasks)) << "seed " << seed;
    }
    EXPECT_GT(fused, support::draws(50));
    EXPECT_GT(fetches, support::draws(5));
}

// A transposed weight is the same in all micro-batches, so it is in no block of the schedule: what
// fetches it waits for nothing, and moved with the others of its bucket it would wait for what reads
// it.
TEST(BucketsOfAnyPlan, HaveNoFetchesForWhatRunsOnce) {
    NetworkBuilder build;
    const auto square = [&] { return build.weight({64, 64}); };
    const auto product = [&](graph::TensorId x, graph::TensorId w) {
        return build.add("MatMul", {x, w}, {{64, 64}})[0];
    };
    graph::TensorId x = build.source("x", graph::TensorRole::input, {64, 64});
    const graph::TensorId turned = square();
    const std::vector<graph::TensorId> twice = {square(), square()};
    x = product(x, build.add("Transpose", {turned}, {{64, 64}})[0]);
    for (int layer = 0; layer < 2; ++layer) {
        for (const graph::TensorId w : twice) x = product(x, w);
        x = product(x, square());
    }
    build.add_outputs();
    const cost::Machine machine = switched_machine(4);
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.bucket_bytes = kOneBucket;
    options.policy.micro_batches = 2;
    options.policy.schedule = {.kind = ScheduleKind::one_f_one_b};
    const Problem problem = make_problem(build.graph, machine, options);
    Strategy strategy;
    strategy.policy = options.policy;
    for (const graph::Op& op : build.graph.ops()) {
        const bool batched = problem.facts().is_batched(op.outputs.empty() ? x : op.outputs[0]);
        const bool parameter = op.kind == graph::OpKind::parameter;
        const Axis axis = batched || parameter ? Axis::along(0, 4) : Axis::replicas(4);
        OpDecision decision{.config = {.axes = {axis}, .devices = DeviceSet::progression(0, 4, 1)}};
        decision.update.refetch = parameter;
        strategy.ops.push_back(decision);
    }
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
    const TaskGraph tasks = lower(problem, strategy);
    EXPECT_TRUE(has_an_order(tasks));
    EXPECT_TRUE(std::ranges::any_of(
        tasks.tasks, [&](const Task& task) { return is_fused_fetch(problem, task); }));
    const GradientBuckets& buckets = problem.facts().buckets();
    const auto parameter_of = [&](graph::TensorId t) { return build.graph.tensor(t).producer; };
    EXPECT_EQ(buckets.of(parameter_of(turned)), 0);
    EXPECT_EQ(buckets.of_fetches(parameter_of(turned)), -1);
    EXPECT_EQ(buckets.of_fetches(parameter_of(twice[0])), -1) << "two readers";
}

}  // namespace
}  // namespace partita::plan
