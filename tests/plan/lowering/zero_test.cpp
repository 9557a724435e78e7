// SPDX-License-Identifier: Apache-2.0
//
// Sharded updates and parameters are layouts: what ZeRO-1, 2 and 3 communicate and keep (REFERENCES
// 4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/layers.h"

namespace partita::plan {
namespace {

using graph::TensorId;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

class Zero : public LayersTest {
protected:
    /// Data parallelism with updates, and with them parameters, as given.
    Strategy zero(const AxisNames& parameter, bool accumulate_locally, bool refetch) {
        Strategy strategy = this->strategy({{"x", {{"d0", 4}}},
                                            {"mul1", {{"m", 4}}},
                                            {"mul2", {{"m", 4}}},
                                            {"w1", parameter},
                                            {"w2", parameter},
                                            {"y", {{"d0", 4}}}});
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            if (graph_.ops()[i].kind != graph::OpKind::parameter) continue;
            strategy.ops[i].update = {.update = {axes_named(graph_, graph::OpId(i), {{"d0", 4}}),
                                                 DeviceSet::progression(0, kDevices, 1)},
                                      .accumulate_locally = accumulate_locally,
                                      .refetch = refetch};
        }
        return strategy;
    }
};

TEST_F(Zero, StagesOneAndTwoReduceScatterGradientsAndGatherParameters) {
    build({kIn, kIn, kOut});
    for (const bool local : {true, false}) {
        EXPECT_THAT(volumes(zero({{"*", 4}}, local, false)),
                    ElementsAre(Pair("reduce-scatter w2.grad", kIn * kOut),
                                Pair("all-gather w2.new", kIn * kOut),
                                Pair("reduce-scatter w1.grad", kIn * kIn),
                                Pair("all-gather w1.new", kIn * kIn)));
    }
}

// Three times the parameters instead of two, but for w1: nobody needs the gradient of x, and that
// of w1 does not read w1.
TEST_F(Zero, StageThreeGathersParametersTwiceAndReduceScattersGradients) {
    build({kIn, kIn, kOut});
    EXPECT_THAT(volumes(zero({{"d0", 4}}, false, true)),
                UnorderedElementsAre(
                    Pair("all-gather w1", kIn * kIn), Pair("all-gather w2", kIn * kOut),
                    Pair("all-gather w2", kIn * kOut), Pair("reduce-scatter w2.grad", kIn * kOut),
                    Pair("reduce-scatter w1.grad", kIn * kIn)));
}

// Gradients in float32: 2 bytes for a parameter, 4 for its gradient, and that is what is sent.
TEST_F(Zero, GradientsMayBeWiderThanParameters) {
    build({64, 128});
    for (graph::Op const& op : graph_.ops()) {
        for (const TensorId t : op.outputs) {
            graph_.tensor(t).dtype = graph::DType::bfloat16;
            if (graph_.tensor(t).role != graph::TensorRole::parameter) continue;
            graph_.tensor(t).gradient_dtype = graph::DType::float32;
        }
    }
    const std::int64_t psi = std::int64_t{64} * 128;
    const Problem problem =
        make_problem(graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
    const TaskGraph tasks = lower(
        problem,
        this->strategy(
            {{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"w1", {{"*", 4}}}, {"y", {{"d0", 4}}}}));
    EXPECT_EQ(tasks.persistent[0][MemoryKind::weights], Bytes(2 * psi));
    EXPECT_EQ(tasks.persistent[0][MemoryKind::gradients], Bytes(4 * psi));
    int sums = 0;
    for (const Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        EXPECT_EQ(task.bytes, Bytes(4 * psi));
        ++sums;
    }
    EXPECT_EQ(sums, 1);
}

/// REFERENCES 4: bfloat16 parameters and gradients, Adam with float32 master, K = 12.
TEST_F(Zero, MemoryIsThatOfThePublishedTable) {
    build({64, 128});
    for (graph::Op const& op : graph_.ops()) {
        for (const TensorId t : op.outputs) graph_.tensor(t).dtype = graph::DType::bfloat16;
    }
    const std::int64_t psi = std::int64_t{64} * 128;
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.optimizer = Optimizer::adam;
    const Problem problem = make_problem(graph_, machine_, options);
    const auto parameters = [&](const AxisNames& parameter, bool local, bool sharded) {
        Strategy strategy = this->strategy(
            {{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"w1", parameter}, {"y", {{"d0", 4}}}});
        strategy.policy = options.policy;
        const graph::OpId w1 = *graph_.find_op("w1");
        UpdateConfig& update = strategy.ops[w1.index()].update;
        if (sharded) {
            update.update = {axes_named(graph_, w1, {{"d0", 4}}),
                             DeviceSet::progression(0, kDevices, 1)};
        }
        update.accumulate_locally = local;
        const MemoryByKind kept = lower(problem, strategy).persistent[1];
        return kept.total().raw() - kept[MemoryKind::activations].raw();
    };
    EXPECT_EQ(parameters({{"*", 4}}, true, false), 16 * psi);                // no sharding
    EXPECT_EQ(parameters({{"*", 4}}, true, true), 4 * psi + 12 * psi / 4);   // P_os
    EXPECT_EQ(parameters({{"*", 4}}, false, true), 2 * psi + 14 * psi / 4);  // P_os+g
    EXPECT_EQ(parameters({{"d0", 4}}, false, true), 16 * psi / 4);           // P_os+g+p
}

// What is fetched for one use is dropped after it, and fetched no earlier than the op before runs.
TEST_F(Zero, StageThreeHoldsFewLayersAtATime) {
    constexpr std::int64_t kWidth = 256;
    constexpr std::int64_t kLayer = kWidth * kWidth * 4;
    build(std::vector<std::int64_t>(13, kWidth));
    const Problem problem =
        make_problem(graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
    std::map<std::string, AxisNames> degrees{{"x", {{"d0", 4}}}, {"y", {{"d0", 4}}}};
    for (int i = 1; i <= 12; ++i) {
        degrees["mul" + std::to_string(i)] = {{"m", 4}};
        degrees["w" + std::to_string(i)] = {{"d0", 4}};
    }
    Strategy strategy = this->strategy(degrees);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        strategy.ops[i].update.refetch = graph_.ops()[i].kind == graph::OpKind::parameter;
    }
    const TaskGraph tasks = lower(problem, strategy);
    const auto peak = peak_memory(tasks, simulate(tasks, Scheduler::pct).commit_order);
    const std::int64_t activations = 13 * (kBatch / 4) * kWidth * 4;
    // Two layers and two gradients, one of each on its way.
    EXPECT_LE(peak[1].raw() - tasks.persistent[1].total().raw(), 4 * kLayer + 3 * activations);
}

/// Twelve products, two in a layer, that keep shards.
class ZeroLayers : public LayersTest {
protected:
    static constexpr std::int64_t kWidth = 256;
    static constexpr std::int64_t kProduct = kWidth * kWidth;
    static constexpr int kLayers = 6;

    ZeroLayers() {
        build(std::vector<std::int64_t>(2 * kLayers + 1, kWidth));
        std::map<std::string, AxisNames> degrees{{"x", {{"d0", 4}}}, {"y", {{"d0", 4}}}};
        for (int i = 0; i < 2 * kLayers; ++i) {
            const std::string number = std::to_string(i + 1);
            graph_.op(*graph_.find_op("mul" + number)).block = "layers." + std::to_string(i / 2);
            degrees["mul" + number] = {{"m", 4}};
            degrees["w" + number] = {{"d0", 4}};
        }
        strategy_ = strategy(degrees);
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            strategy_.ops[i].update.refetch = graph_.ops()[i].kind == graph::OpKind::parameter;
        }
    }

    /// With the strategy's policy.
    [[nodiscard]] Problem problem() const {
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy = strategy_.policy;
        return make_problem(graph_, machine_, options);
    }

    Strategy strategy_;
};

// As FSDP does (Zhao et al., VLDB 2023): a layer is gathered for its forward and once
// more for its backward, and its gradients are reduced together, in each micro-batch.
TEST_F(ZeroLayers, MoveAsOne) {
    strategy_.policy.bucket_bytes = kLayerBuckets;
    // What devices gather of activations again is nothing to parameters.
    for (const bool gather_again : {false, true}) {
        for (const int micro_batches : {1, 2}) {
            strategy_.policy.gather_again = gather_again;
            strategy_.policy.micro_batches = micro_batches;
            const Problem of = problem();
            std::map<std::string, int> moved;
            for (const auto& [name, elements] : communication(of, lower(of, strategy_))) {
                // The backward of the first product reads no weights: nobody needs the gradient of
                // x.
                EXPECT_EQ(elements, (name == "all-gather w2" ? 1 : 2) * kProduct) << name;
                ++moved[name.substr(0, name.find(' '))];
            }
            EXPECT_THAT(moved, ElementsAre(Pair("all-gather", 2 * kLayers * micro_batches),
                                           Pair("reduce-scatter", kLayers * micro_batches)));
        }
    }
}

TEST_F(ZeroLayers, AreHeldTwoAtATime) {
    strategy_.policy.bucket_bytes = kLayerBuckets;
    const Problem of = problem();
    const TaskGraph tasks = lower(of, strategy_);
    const auto peak = peak_memory(tasks, simulate(tasks, Scheduler::pct).commit_order);
    constexpr std::int64_t kLayer = 2 * kProduct * 4;
    constexpr std::int64_t kActivations = (2 * kLayers + 1) * (kBatch / 4) * kWidth * 4;
    // Two layers and two gradients, one of each on its way.
    const std::int64_t held = peak[1].raw() - tasks.persistent[1].total().raw();
    EXPECT_LE(held, 4 * kLayer + 3 * kActivations);
    EXPECT_GE(held, 2 * kLayer);
    const auto kinds = peak_memory_by_kind(tasks, simulate(tasks, Scheduler::pct).commit_order);
    const Bytes kept = tasks.persistent[1][MemoryKind::weights];
    EXPECT_LE(kinds[1][MemoryKind::weights] - kept, Bytes(2 * kLayer));
}

// What fetches a layer waits for no part of it, and for the layer before the one before it.
TEST_F(ZeroLayers, AreFetchedWhileTheOneBeforeRuns) {
    strategy_.policy.bucket_bytes = kLayerBuckets;
    const Problem of = problem();
    const TaskGraph tasks = lower(of, strategy_);
    const Timeline timeline = simulate(tasks, Scheduler::pct);
    std::map<std::string, Time> begin;
    std::map<std::string, Time> end;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Task& task = tasks.tasks[i];
        const bool fetches = task.kind == TaskKind::collective && !task.gradient;
        if (task.kind != TaskKind::forward && !fetches) continue;
        const std::string name =
            fetches ? graph_.tensor(task.tensor).name : graph_.op(task.op).name;
        begin.try_emplace(name, timeline.start[i]);
        end.try_emplace(name, timeline.start[i] + task.duration);
    }
    for (int layer = 2; layer < kLayers; ++layer) {
        const std::string fetch = "w" + std::to_string(2 * layer + 1);
        EXPECT_GE(begin.at(fetch), end.at("mul" + std::to_string(2 * layer - 2))) << layer;
        EXPECT_LT(begin.at(fetch), end.at("mul" + std::to_string(2 * layer))) << layer;
    }
}

// A local accumulator is part of what lies there all along; only later micro-batches need room
// beside it.
TEST_F(Zero, ALocalAccumulatorIsCountedOnce) {
    build({kIn, kOut});
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.micro_batches = 2;
    const Problem problem = make_problem(graph_, machine_, options);
    Strategy strategy =
        this->strategy({{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"y", {{"d0", 4}}}});
    strategy.policy = options.policy;
    strategy.ops[graph_.find_op("w1")->index()].update.accumulate_locally = true;
    const TaskGraph tasks = lower(problem, strategy);
    std::map<std::int32_t, std::int64_t> bytes;  // per micro-batch, of what backward tasks give
    for (const Buffer& buffer : tasks.buffers) {
        if (buffer.gradient && buffer.operand == 1) bytes[buffer.micro_batch] += buffer.bytes.raw();
    }
    EXPECT_THAT(bytes, ElementsAre(Pair(0, 0), Pair(1, kDevices * kIn * kOut * 4)));
}

/// Bytes of gradients beside what is there all along, on all devices.
std::int64_t gradient_bytes(const TaskGraph& tasks) {
    std::int64_t sum = 0;
    for (const Buffer& buffer : tasks.buffers) {
        if (buffer.kind == MemoryKind::gradients) sum += buffer.bytes.raw();
    }
    return sum;
}

// What a reduce-scatter leaves is the shard that the update reads, which is there all along; so is, in
// the one micro-batch that there is, what a backward leaves to be added up.
TEST_F(Zero, AShardOfAGradientIsCountedOnce) {
    build({kIn, kIn, kOut});
    const Problem problem =
        make_problem(graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
    const std::int64_t whole = kDevices * (kIn * kIn + kIn * kOut) * 4;
    const auto transient = [&](const AxisNames& parameter, bool local, bool refetch) {
        return gradient_bytes(lower(problem, zero(parameter, local, refetch)));
    };
    EXPECT_EQ(transient({{"*", 4}}, true, false), 0) << "ZeRO-1";
    EXPECT_EQ(transient({{"*", 4}}, false, false), whole) << "ZeRO-2: what backwards leave";
    EXPECT_EQ(transient({{"d0", 4}}, false, true), whole) << "ZeRO-3";
    const Strategy everywhere = strategy(
        {{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"mul2", {{"m", 4}}}, {"y", {{"d0", 4}}}});
    EXPECT_EQ(gradient_bytes(lower(problem, everywhere)), whole) << "an all-reduce";
}

// Only what the first micro-batch leaves is the shard; later ones are added to it.
TEST_F(Zero, ShardsOfLaterMicroBatchesLieBesideTheFirst) {
    build({kIn, kOut});
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.micro_batches = 2;
    const Problem problem = make_problem(graph_, machine_, options);
    Strategy strategy = this->strategy(
        {{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"y", {{"d0", 4}}}, {"w1", {{"d0", 4}}}});
    strategy.policy = options.policy;
    constexpr std::int64_t kWhole = kDevices * kIn * kOut * 4;
    EXPECT_EQ(gradient_bytes(lower(problem, strategy)), 2 * kWhole + kWhole / kDevices);
}

}  // namespace
}  // namespace partita::plan
