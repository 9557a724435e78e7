// SPDX-License-Identifier: Apache-2.0
//
// Collectives that move together are one task, and nothing else changes.
#include "plan/lowering/fused_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/lowering/interpreter.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpGraph;
using graph::TensorId;
using graph::TensorRole;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kDevices = 4;
constexpr std::int64_t kBatch = 8;

ProblemOptions training() {
    return {.mode = Mode::training, .objective = Objective::step_time};
}

std::vector<std::string> collectives(const Problem& problem, const Strategy& strategy) {
    std::vector<std::string> names;
    for (const Task& task : lower(problem, strategy).tasks) {
        if (task.kind == TaskKind::collective) names.push_back(task_name(problem, task));
    }
    return names;
}

void expect_same_as_one_device(const Problem& problem, const Strategy& strategy) {
    const Interpretation expected = interpreted(
        problem, on_devices(std::vector<int>(problem.graph().op_count(), 0)), {.plain = true});
    const Interpretation actual = interpreted(problem, strategy, {.plain = true});
    EXPECT_TRUE(actual.outputs == expected.outputs);
    EXPECT_TRUE(actual.parameters == expected.parameters);
}

/// The strategy's next op, over all devices.
void split_next(const OpGraph& graph, const AxisNames& axes, Strategy& strategy) {
    const graph::OpId op(strategy.ops.size());
    strategy.ops.push_back({.config = {.axes = axes_named(graph, op, axes),
                                       .devices = DeviceSet::progression(0, kDevices, 1)}});
}

/// A recommender in small: embedding tables, table i on device i modulo kDevices, and behind their
/// concatenation a layer over the batch.
struct Recommender {
    Recommender(int tables, std::int64_t width) : machine(switched_machine(kDevices)) {
        std::vector<TensorId> found;
        for (int i = 0; i < tables; ++i) {
            const std::string n = std::to_string(i);
            const TensorId table =
                add_source(graph, "table" + n, TensorRole::parameter, {12, width});
            // Products with one-hot rows: look-ups whose meaning the interpreter knows.
            const TensorId rows = add_source(graph, "rows" + n, TensorRole::input, {kBatch, 12});
            found.push_back(
                add_compute(graph, "look" + n, "MatMul", {rows, table}, {kBatch, width}));
            on_device(3, i % kDevices);
        }
        graph::Attributes axis;
        axis.set("axis", std::int64_t{1});
        const TensorId all =
            add_compute(graph, "concat", "Concat", found, {kBatch, tables * width}, axis);
        split({{"d0", kDevices}});
        const TensorId w = add_source(graph, "w", TensorRole::parameter, {tables * width, 3});
        split({{"*", kDevices}});
        const TensorId y = add_compute(graph, "mul", "MatMul", {all, w}, {kBatch, 3});
        split({{"m", kDevices}});
        graph.add_output("y", y);
        split({{"d0", kDevices}});
    }
    void on_device(int ops, int device) {
        for (int i = 0; i < ops; ++i) {
            strategy.ops.push_back({.config = {.axes = {}, .devices = DeviceSet::single(device)}});
        }
    }
    void split(const AxisNames& axes) { split_next(graph, axes, strategy); }

    OpGraph graph;
    cost::Machine machine;
    Strategy strategy;
};

TEST(FusedCollectives, TablesOnAllDevicesMeetTheBatchInOneAllToAllEachWay) {
    const Recommender net(26, 5);
    const Problem problem = make_problem(net.graph, net.machine, training());
    ASSERT_EQ(find_fault(problem, net.strategy), std::nullopt);
    EXPECT_THAT(collectives(problem, net.strategy),
                ElementsAre("all-to-all look0.out +25 gpu0", "all-reduce w.grad gpu0",
                            "all-to-all look25.out.grad +25 gpu0"));
    const TaskGraph tasks = lower(problem, net.strategy);
    for (const Task& task : tasks.tasks) {
        // Devices 0 and 1 have seven tables each, 8 x 5 floats each.
        if (task.fused == 0) continue;
        EXPECT_EQ(task.bytes, Bytes(7 * kBatch * 5 * 4));
    }
    expect_same_as_one_device(problem, net.strategy);
}

TEST(FusedCollectives, TheGradientsOfOneLayerAreOneAllReduce) {
    OpGraph graph;
    const cost::Machine machine = switched_machine(kDevices);
    const TensorId x = add_source(graph, "x", TensorRole::input, {kBatch, 6});
    const TensorId w = add_source(graph, "w", TensorRole::parameter, {6, 10});
    const TensorId b = add_source(graph, "b", TensorRole::parameter, {10});
    graph.add_output("y", add_compute(graph, "fc", "Gemm", {x, w, b}, {kBatch, 10}));
    const Problem problem = make_problem(graph, machine, training());
    Strategy strategy;
    for (const char* axis : {"d0", "*", "*", "m", "d0"}) split_next(graph, {{axis, 4}}, strategy);
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
    EXPECT_THAT(collectives(problem, strategy), ElementsAre("all-reduce b.grad +1 gpu0"));
    expect_same_as_one_device(problem, strategy);
}

// Two gathers of much that only end together: nothing is saved that overlap might not save too.
TEST(FusedCollectives, NothingIsFusedForALatencyThatHardlyCounts) {
    OpGraph graph;
    const cost::Machine machine = switched_machine(kDevices);
    const TensorId x = add_source(graph, "x", TensorRole::input, {4096, 4096});
    const TensorId a = add_compute(graph, "a", "Relu", {x}, {4096, 4096});
    const TensorId b = add_compute(graph, "b", "Tanh", {x}, {4096, 4096});
    graph.add_output("y", add_compute(graph, "add", "Add", {a, b}, {4096, 4096}));
    Strategy strategy;
    for (const char* axis : {"d0", "d0", "d0", "*", "*"}) split_next(graph, {{axis, 4}}, strategy);
    const Problem problem = make_problem(graph, machine);
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
    EXPECT_THAT(collectives(problem, strategy),
                ElementsAre("all-gather a.out gpu0", "all-gather b.out gpu0"));
}

/// Two all-gathers before the parts of one op.
class FindFused : public testing::Test {
protected:
    FindFused() : machine_(switched_machine(kDevices)), graph_(two_layers()) {
        for (int i = 0; i < 2; ++i) {
            Task task{.kind = TaskKind::collective};
            task.tensor = TensorId(static_cast<std::size_t>(i));
            task.duration = Time(100'000'000);
            task.bytes = Bytes(64);
            task.collective = cost::Collective::all_gather;
            tasks_.push_back(task);
            ranks_.push_back({0, 1, 2, 3});
        }
    }
    std::vector<FusedCollective> found() const {
        const Problem problem = make_problem(graph_, machine_);
        std::vector<FusibleCollective> around;
        for (std::size_t i = 0; i < tasks_.size(); ++i) around.push_back({&tasks_[i], ranks_[i]});
        return find_fused(problem, around, FusionPlace::block);
    }

    cost::Machine machine_;
    OpGraph graph_;
    std::vector<Task> tasks_;
    std::vector<std::vector<std::int32_t>> ranks_;
};

TEST_F(FindFused, FusesTwoOfOneKind) {
    const auto fused = found();
    ASSERT_EQ(fused.size(), 1U);
    EXPECT_THAT(fused[0].members, ElementsAre(0, 1));
    EXPECT_EQ(fused[0].bytes, Bytes(128));
    EXPECT_EQ(fused[0].kind, cost::Collective::all_gather);
}

TEST_F(FindFused, LeavesApartWhatDiffersInAnything) {
    const auto with = [&](auto change) {
        const Task before = tasks_[1];
        change(tasks_[1]);
        auto fused = found();
        tasks_[1] = before;
        return fused;
    };
    EXPECT_THAT(with([](Task& t) { t.collective = cost::Collective::broadcast; }), IsEmpty());
    EXPECT_THAT(with([](Task& t) { t.gradient = true; }), IsEmpty());
    EXPECT_THAT(with([](Task& t) { t.updated = true; }), IsEmpty());
    EXPECT_THAT(with([](Task& t) { t.micro_batch = 1; }), IsEmpty());
    EXPECT_THAT(with([](Task& t) { t.tensor = TensorId(std::size_t{0}); }), IsEmpty());
    ranks_[1] = {0, 1, 3, 2};
    EXPECT_THAT(found(), IsEmpty());
    tasks_.pop_back();
    EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace partita::plan
