// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

std::vector<std::string> names(const Problem& problem, const TaskGraph& graph) {
    std::vector<std::string> out;
    for (const Task& task : graph.tasks) out.push_back(task_name(problem, task));
    return out;
}

ProblemOptions training_options() {
    ProblemOptions options;
    options.mode = Mode::training;
    options.objective = Objective::step_time;
    return options;
}

bool has_edge(const TaskGraph& graph, const std::vector<std::string>& task_names,
              const std::string& before, const std::string& after) {
    const auto index = [&](const std::string& name) {
        return static_cast<std::size_t>(std::find(task_names.begin(), task_names.end(), name) -
                                        task_names.begin());
    };
    const auto successors = graph.successors[index(before)];
    return std::find(successors.begin(), successors.end(), TaskId(index(after))) !=
           successors.end();
}

TEST(Lower, InferenceRunsEveryComputeOpOnceAndNoSource) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(7, 0)));
    EXPECT_EQ(names(problem, tasks),
              (std::vector<std::string>{"forward mul1", "forward relu", "forward mul2"}));
}

// a has two consumers on gpu1 and one on gpu2: two copies, not three.
TEST(Lower, OneCopyPerTensorAndDestination) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 1)
                                     .node("b", 1, {"a"})
                                     .node("c", 1, {"a"})
                                     .node("d", 1, {"a"})
                                     .build();
    const cost::Machine machine = switched_machine(3);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 1, 1, 2}));
    EXPECT_EQ(names(problem, tasks),
              (std::vector<std::string>{"forward a", "copy a.out gpu0>gpu1", "forward b",
                                        "forward c", "copy a.out gpu0>gpu2", "forward d"}));
}

TEST(Lower, ResidentParametersAreNeverCopiedInInference) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    // w1 is placed on gpu1, its only user on gpu0: it is loaded where it is used.
    const TaskGraph tasks = lower(problem, on_devices({0, 1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(tasks.size(), 3U);
    EXPECT_EQ(tasks.persistent[0].total(), Bytes{8 * 16 * 4 + 16 * 16 * 4 + 16 * 4 * 4});
    EXPECT_EQ(tasks.persistent[1].total(), Bytes{0});
}

TEST(Lower, TrainingHasLossBackwardAndUpdateOfEveryParameter) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    const Problem problem = make_problem(graph, machine, training_options());
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(7, 0)));
    const std::vector<std::string> all = names(problem, tasks);
    EXPECT_EQ(all, (std::vector<std::string>{"forward mul1", "forward relu", "forward mul2",
                                             "loss y", "backward mul2", "update w2",
                                             "backward relu", "backward mul1", "update w1"}));
    EXPECT_TRUE(has_edge(tasks, all, "loss y", "backward mul2"));
    EXPECT_TRUE(has_edge(tasks, all, "backward mul2", "backward relu"));
    EXPECT_TRUE(has_edge(tasks, all, "backward mul1", "update w1"));
    EXPECT_TRUE(has_edge(tasks, all, "forward mul1", "update w1")) << "all readers come first";
}

TEST(Lower, GradientsTravelBackWhereActivationsTravelled) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, training_options());
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 0, 0, 1, 1, 1}));
    const std::vector<std::string> all = names(problem, tasks);
    EXPECT_TRUE(has_edge(tasks, all, "forward relu", "copy relu.out gpu0>gpu1"));
    EXPECT_TRUE(has_edge(tasks, all, "copy relu.out gpu0>gpu1", "forward mul2"));
    EXPECT_TRUE(has_edge(tasks, all, "backward mul2", "copy relu.out.grad gpu1>gpu0"));
    EXPECT_TRUE(has_edge(tasks, all, "copy relu.out.grad gpu1>gpu0", "backward relu"));
}

// A parameter placed away from its user: broadcast out, reduce in, a parameter server.
TEST(Lower, ParameterElsewhereIsAParameterServer) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, training_options());
    const TaskGraph tasks = lower(problem, on_devices({0, 1, 0, 0, 0, 0, 0}));
    const std::vector<std::string> all = names(problem, tasks);
    EXPECT_TRUE(has_edge(tasks, all, "copy w1 gpu1>gpu0", "forward mul1"));
    EXPECT_TRUE(has_edge(tasks, all, "backward mul1", "copy w1.grad gpu0>gpu1"));
    EXPECT_TRUE(has_edge(tasks, all, "copy w1.grad gpu0>gpu1", "update w1"));
    EXPECT_TRUE(has_edge(tasks, all, "copy w1 gpu1>gpu0", "update w1"))
        << "the copy reads the old value";
}

// x -> Add(h, h): both operands contribute, so their gradients are added before h's producer.
TEST(Lower, SeveralConsumersAccumulateOnTheirDeviceFirst) {
    graph::OpGraph graph = two_layers();
    const graph::TensorId hidden = graph.op(*graph.find_op("relu")).outputs[0];
    for (const char* name : {"left", "right"}) {
        graph::Tensor tensor;
        tensor.name = std::string(name) + ".out";
        tensor.shape = {8, 16};
        graph::Op op;
        op.name = name;
        op.type = "Relu";
        op.opset = 13;
        op.inputs = {hidden};
        op.outputs = {graph.add_tensor(tensor)};
        graph.add_op(op);
        graph.add_output(std::string("out_") + name, op.outputs[0]);
    }
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, training_options());
    // left and right on gpu1: one copy there, one accumulated gradient back.
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
    const std::vector<std::string> all = names(problem, tasks);
    std::map<std::string, int> count;
    for (const std::string& name : all) ++count[name];
    EXPECT_EQ(count["copy relu.out gpu0>gpu1"], 1);
    EXPECT_EQ(count["accumulate relu.out.grad gpu1"], 1);
    EXPECT_EQ(count["copy relu.out.grad gpu1>gpu0"], 1);
    EXPECT_EQ(count["accumulate relu.out.grad gpu0"], 1);
    EXPECT_TRUE(has_edge(tasks, all, "backward left", "accumulate relu.out.grad gpu1"));
    EXPECT_TRUE(
        has_edge(tasks, all, "accumulate relu.out.grad gpu1", "copy relu.out.grad gpu1>gpu0"));
    EXPECT_TRUE(has_edge(tasks, all, "accumulate relu.out.grad gpu0", "backward relu"));
}

// x ─▶ MatMul ─▶ y    w ─▶ Relu: what does not depend on the batch runs once, and its gradient comes
//        ╰── Relu(w)                after the last micro-batch
TEST(Lower, AWeightMadeFromAParameterGetsItsGradientOnce) {
    graph::OpGraph graph;
    const auto x = add_source(graph, "x", graph::TensorRole::input, {8, 4});
    const auto w = add_source(graph, "w", graph::TensorRole::parameter, {4, 4});
    const auto made = add_compute(graph, "relu", "Relu", {w}, {4, 4});
    graph.add_output("y", add_compute(graph, "mul", "MatMul", {x, made}, {8, 4}));
    const cost::Machine machine = switched_machine(1);
    ProblemOptions options = training_options();
    options.policy.micro_batches = 2;
    const Problem problem = make_problem(graph, machine, options);
    const TaskGraph tasks =
        lower(problem, whole_ops(std::vector<int>(graph.op_count(), 0), options.policy));
    std::map<std::string, int> count;
    for (const std::string& name : names(problem, tasks)) ++count[name];
    EXPECT_EQ(count["forward relu"], 1);
    EXPECT_EQ(count["forward mul #0"] + count["forward mul #1"], 2);
    EXPECT_EQ(count["backward relu"], 1);
    EXPECT_EQ(count["update w"], 1);
}

// Addends 0 on gpu0 and gpu1, 1 on gpu2 and gpu3, which is alone in its node: nearest replicas
// would make one group of all four that is no collective.
TEST(Lower, AddendsInUnevenNodesAreReducedRankByRank) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(4, {0, 0, 0, 1});
    const Problem problem = make_problem(graph, machine);
    Strategy strategy = on_devices(std::vector<int>(7, 0));
    const DeviceSet all = DeviceSet::progression(0, 4, 1);
    const graph::OpId product = *graph.find_op("mul1");
    strategy.ops[product.index()].config = {axes_named(graph, product, {{"k", 2}, {"*", 2}}), all};
    strategy.ops[graph.find_op("relu")->index()].config = {{Axis::replicas(4)}, all};
    const TaskGraph tasks = lower(problem, strategy);
    std::vector<std::vector<int>> groups;
    for (const Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        EXPECT_EQ(task.collective, cost::Collective::all_reduce);
        const auto ranks = tasks.ranks[static_cast<std::size_t>(task.ranks)];
        groups.emplace_back(ranks.begin(), ranks.end());
    }
    EXPECT_EQ(groups, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
}

TEST(Lower, DigestChangesWithThePlacement) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    const auto digest_of = [&](const std::vector<int>& devices) {
        return digest(lower(problem, on_devices(devices)));
    };
    EXPECT_EQ(digest_of({0, 0, 0, 0, 0, 0, 0}), digest_of({0, 0, 0, 0, 0, 0, 0}));
    EXPECT_NE(digest_of({0, 0, 0, 0, 0, 0, 0}), digest_of({0, 0, 0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace partita::plan
