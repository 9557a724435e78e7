// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "base/error.h"
#include "plan/problem/op_costs.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using testing::HasSubstr;

std::string usage_error(const std::function<void()>& act) {
    try {
        act();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Problem, RefusesConstraintsThatNameNoDevice) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options;
    options.constraints.allowed = {{0}, {2}};
    EXPECT_EQ(usage_error([&] { make_problem(graph, machine, options); }),
              "op 'w1' is fixed to device 2, but machine 'switched' has devices 0 to 1");
}

TEST(Problem, LeavesMicroBatchesOpenThatCutTheBatchEvenly) {
    using testing::ElementsAre;
    const cost::Machine machine = switched_machine(2);
    const auto choices = [&](const graph::OpGraph& graph, int own, int most) {
        ProblemOptions options;
        options.policy.micro_batches = own;
        options.constraints.most_micro_batches = most;
        return make_problem(graph, machine, options).batch().micro_batch_choices();
    };
    const graph::OpGraph of_eight = two_layers();
    EXPECT_THAT(choices(of_eight, 1, 0), ElementsAre(1));
    EXPECT_THAT(choices(of_eight, 3, 0), ElementsAre(3));
    EXPECT_THAT(choices(of_eight, 1, 4), ElementsAre(1, 2, 4));
    EXPECT_THAT(choices(of_eight, 3, 16), ElementsAre(1, 2, 3, 4, 8));
    const auto of_batch = [](std::int64_t batch) {
        NetworkBuilder build;
        const graph::TensorId x = build.source("x", graph::TensorRole::input, {batch, 2});
        build.add("Relu", {x}, {{batch, 2}});
        build.add_outputs();
        return std::move(build.graph);
    };
    EXPECT_THAT(choices(of_batch(12), 1, 16), ElementsAre(1, 2, 4));
    EXPECT_THAT(choices(of_batch(1), 1, 16), ElementsAre(1));
    const graph::OpGraph workload = WorkloadBuilder().node("1", 1).build();
    EXPECT_THAT(choices(workload, 1, 16), ElementsAre(1));
}

// x -> MatMul w1 -> Relu -> MatMul w2: below what is trained nothing has a gradient.
TEST(Problem, TrainsNoFrozenParameter) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const auto frozen = [&](std::vector<std::string> globs) {
        ProblemOptions options{.mode = Mode::training};
        options.policy.frozen = std::move(globs);
        return make_problem(graph, machine, options);
    };
    const Problem second = frozen({"w1"});
    const GraphFacts& facts = second.facts();
    const auto tensor = [&](const char* op) { return graph.op(*graph.find_op(op)).outputs[0]; };
    EXPECT_FALSE(facts.has_gradient(tensor("w1")));
    EXPECT_TRUE(facts.is_resident(tensor("w1")));
    EXPECT_FALSE(facts.has_backward(*graph.find_op("mul1")));
    EXPECT_TRUE(facts.has_gradient(tensor("w2")));
    EXPECT_FALSE(facts.is_resident(tensor("w2")));
    EXPECT_EQ(facts.persistent_bytes(*graph.find_op("w1")), graph.tensor(tensor("w1")).bytes());
    const Problem first = frozen({"?2"});
    EXPECT_TRUE(first.facts().has_gradient(tensor("w1")));
    EXPECT_TRUE(first.facts().has_backward(*graph.find_op("mul2"))) << "the gradient goes through";
    EXPECT_EQ(usage_error([&] {
                  frozen({"w1", "w3*"});
              }),
              "--frozen w3*: model 'two-layers' has no parameter of that name. `partita inspect "
              "--ops` lists them.");
    EXPECT_THAT(usage_error([&] { frozen({"w*"}); }),
                HasSubstr("no floating-point output depends on a parameter that is not --frozen"));
}

// References to blocks of parts are numbers of 32 bits.
TEST(Problem, LeavesNoMoreMicroBatchesOpenThanUsesOfATensorCanBeNumbered) {
    const cost::Machine machine = switched_machine(1);
    NetworkBuilder build;
    graph::TensorId x = build.source("x", graph::TensorRole::input, {4'096, 2});
    const graph::TensorId w = build.weight({2});
    for (int i = 0; i < 17; ++i) x = build.add("Add", {x, w}, {{4'096, 2}})[0];
    build.add_outputs();
    ProblemOptions options{.mode = Mode::training};
    options.constraints.most_micro_batches = 4'096;
    EXPECT_EQ(make_problem(build.graph, machine, options).batch().micro_batch_choices().back(),
              2'048);
    options.policy.micro_batches = 4'096;
    EXPECT_EQ(usage_error([&] { make_problem(build.graph, machine, options); }),
              "--micro-batches: ops and micro-batches use tensor 'w0' 69633 times, more than the "
              "65535 that can be planned. Use fewer, or 1.");
}

TEST(Problem, AllowsThePolicyAndWhatItLeavesOpen) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const auto allowed = [&](int most, bool free_schedule) {
        ProblemOptions options;
        options.constraints = {.most_micro_batches = most, .free_schedule = free_schedule};
        const Problem problem = make_problem(graph, machine, options);
        const Schedule ordered{.kind = ScheduleKind::one_f_one_b};
        return std::array{problem.batch().allows({}), problem.batch().allows({.micro_batches = 4}),
                          problem.batch().allows({.micro_batches = 3}),
                          problem.batch().allows({.schedule = ordered}),
                          problem.batch().allows({.optimizer = Optimizer::adam})};
    };
    EXPECT_EQ(allowed(0, false), (std::array{true, false, false, false, false}));
    EXPECT_EQ(allowed(8, false), (std::array{true, true, false, false, false}));
    EXPECT_EQ(allowed(0, true), (std::array{true, false, false, true, false}));
}

TEST(Problem, WithAFreeBatchLeavesMicroBatchesAndScheduleOpen) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.micro_batches = 4;
    options.policy.schedule = {.kind = ScheduleKind::one_f_one_b};
    const Problem fixed = make_problem(graph, machine, options);
    EXPECT_TRUE(fixed.batch().fixes_batch());
    const Problem free = fixed.with_free_batch();
    EXPECT_FALSE(free.batch().fixes_batch());
    EXPECT_EQ(free.policy(), Policy{});
    EXPECT_THAT(free.batch().micro_batch_choices(), testing::ElementsAre(1, 2, 4, 8));
    EXPECT_TRUE(free.batch().allows(fixed.policy()));
    EXPECT_EQ(&free.prices(), &fixed.prices()) << "they do not depend on the batch";
}

// One row: its classes are the batch.
TEST(Problem, RefusesMicroBatchesOfTheClassesOfCrossEntropy) {
    NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {8, 16});
    const auto scores = build.add("MatMul", {x, build.weight({16})}, {{8}});
    build.graph.add_output("y", scores[0]);
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options;
    options.mode = Mode::training;
    options.policy.micro_batches = 2;
    EXPECT_NO_THROW(make_problem(build.graph, machine, options));
    options.policy.loss = LossKind::cross_entropy;
    EXPECT_THAT(usage_error([&] { make_problem(build.graph, machine, options); }),
                HasSubstr("op 'y/log_sum_exp' (ReduceLogSumExp) mixes samples of the batch"));
}

TEST(Problem, RefusesTrainingOfAWorkload) {
    const graph::OpGraph graph = WorkloadBuilder().node("1", 1).build();
    const cost::Machine machine = switched_machine(1);
    ProblemOptions options;
    options.mode = Mode::training;
    EXPECT_THAT(usage_error([&] { make_problem(graph, machine, options); }),
                HasSubstr("holds its backward nodes itself"));
}

/// Devices 0 and 2 are CPUs.
cost::Machine mixed_machine() {
    const cost::Machine gpus = switched_machine(3);
    std::vector<cost::Device> devices(gpus.devices().begin(), gpus.devices().end());
    devices[0].kind = cost::DeviceKind::cpu;
    devices[2].kind = cost::DeviceKind::cpu;
    return {"mixed", devices, {"switch"}, {gpus.links().begin(), gpus.links().end()}};
}

TEST(Problem, KeepsNodesThatNoAcceleratorSupportsOnCpus) {
    graph::OpGraph graph =
        WorkloadBuilder().node("a", 1).node("b", 1, {"a"}).node("c", 1, {"b"}).build();
    graph.op(graph::OpId(1U)).given->on_accelerator = false;
    graph.op(graph::OpId(2U)).given->on_accelerator = false;
    const cost::Machine machine = mixed_machine();
    ProblemOptions options;
    options.constraints.allowed = {{}, {}, {1, 2}};
    const Problem problem = make_problem(graph, machine, options);
    EXPECT_EQ(problem.constraints().allowed_devices(graph::OpId(0U)), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(problem.constraints().allowed_devices(graph::OpId(1U)), (std::vector<int>{0, 2}));
    EXPECT_EQ(problem.constraints().allowed_devices(graph::OpId(2U)), (std::vector<int>{2}));
}

TEST(Problem, NamesTheNodeThatNeedsACpuWhereThereIsNone) {
    graph::OpGraph graph = WorkloadBuilder().node("a", 1).node("b", 1, {"a"}).build();
    graph.op(graph::OpId(1U)).given->on_accelerator = false;
    const cost::Machine machine = switched_machine(2);
    try {
        const Problem problem = make_problem(graph, machine);
        FAIL();
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr("node 'b' runs on CPUs alone"));
    }
}

TEST(Problem, RefusesALossThatNamesNoOutput) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    ProblemOptions options;
    options.mode = Mode::training;
    options.policy.loss_output = "z";
    EXPECT_EQ(usage_error([&] { make_problem(graph, machine, options); }),
              "model 'two-layers' cannot be trained: output 'z' (--loss) does not exist or depends "
              "on no parameter. Its outputs are 'mul2.out'.");
}

TEST(Problem, GradientsFollowFloatingPointPathsFromParametersToTheLoss) {
    const graph::OpGraph graph = two_layers();
    const GradientPaths paths = gradient_paths(graph, {});
    std::vector<std::string> with_gradient;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        if (paths.gradient[i] != 0) with_gradient.push_back(graph.tensors()[i].name);
    }
    EXPECT_EQ(with_gradient,
              (std::vector<std::string>{"w1", "mul1.out", "relu.out", "w2", "mul2.out"}))
        << "the input has none";
}

// Backward of a product: one forward per operand gradient. mul1 lacks its input's, mul2 has both.
TEST(Problem, BackwardOfAProductCostsOneForwardPerOperandGradient) {
    const graph::OpGraph graph = two_layers();
    const auto rules = graph::rules_of(graph);
    const Policy policy;
    const GradientPaths paths = gradient_paths(graph, policy);
    const OpWorks works(graph, rules, paths.gradient, policy);
    const graph::OpId mul1 = *graph.find_op("mul1");
    const graph::OpId mul2 = *graph.find_op("mul2");
    EXPECT_EQ(works.forward(mul1).flops, Flops(2 * 8 * 16 * 16));
    EXPECT_EQ(works.backward(mul1).flops, works.forward(mul1).flops);
    EXPECT_EQ(works.backward(mul2).flops, 2 * works.forward(mul2).flops);
}

/// Forward bytes of a lookup in a table of `rows` rows of 4 floats.
Bytes lookup_bytes(const char* type, std::int64_t rows, graph::Shape indices, graph::Shape result) {
    graph::OpGraph graph;
    const auto make = [](const char* name, graph::Shape shape, graph::DType dtype,
                         graph::TensorRole role) {
        graph::Tensor tensor;
        tensor.name = name;
        tensor.shape = std::move(shape);
        tensor.dtype = dtype;
        tensor.role = role;
        return tensor;
    };
    using graph::DType;
    using graph::TensorRole;
    graph::Op op;
    op.name = "lookup";
    op.type = type;
    op.opset = 13;
    op.inputs = {
        graph.add_source(make("table", {rows, 4}, DType::float32, TensorRole::parameter)),
        graph.add_source(make("indices", std::move(indices), DType::int64, TensorRole::input))};
    op.outputs = {
        graph.add_tensor(make("rows", std::move(result), DType::float32, TensorRole::activation))};
    const graph::OpId lookup = graph.add_op(op);
    const auto rules = graph::rules_of(graph);
    const Policy policy;
    const std::vector<char> gradient(graph.tensor_count(), 0);
    return OpWorks(graph, rules, gradient, policy).forward(lookup).bytes;
}

// Two rows of 4 floats are read and written, 32 bytes each way, however long the table is; indices
// are 8 bytes each: one per row, or one per element for GatherElements.
TEST(Problem, LookupsReadOnlyWhatTheyReturn) {
    for (const std::int64_t rows : {10, 1'000'000}) {
        EXPECT_EQ(lookup_bytes("Gather", rows, {2}, {2, 4}), Bytes{2 * 32 + 2 * 8});
        EXPECT_EQ(lookup_bytes("GatherND", rows, {2, 1}, {2, 4}), Bytes{2 * 32 + 2 * 8});
        EXPECT_EQ(lookup_bytes("GatherElements", rows, {2, 4}, {2, 4}), Bytes{2 * 32 + 8 * 8});
    }
}

TEST(Problem, ForwardsComeBeforeThoseThatReadThem) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options;
    options.mode = Mode::training;
    const Problem problem = make_problem(graph, machine, options);
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        for (const graph::OpId next : graph.successors(graph::OpId(i))) {
            EXPECT_LT(problem.priority(graph::OpId(i), Pass::forward),
                      problem.priority(next, Pass::forward));
        }
    }
}

TEST(Problem, RefusesAnOpThatLeavesOutAResult) {
    graph::OpGraph graph;
    graph.name = "net";
    const graph::TensorId x = add_source(graph, "x", graph::TensorRole::input, {2, 3});
    graph.add_tensor({.name = "y", .shape = {2, 3}});
    graph::Op op;
    op.name = "cell";
    op.type = "LSTM";
    op.inputs = {x};
    op.outputs = {graph::TensorId(), graph::TensorId(std::size_t{1})};
    graph.add_op(std::move(op));
    const cost::Machine machine = switched_machine(1);
    try {
        make_problem(graph, machine);
        FAIL();
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("node 'cell' (LSTM) leaves out its output 0"));
    }
}

TEST(Problem, EqualDevicesShareAClass) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine gpus = switched_machine(3);
    std::vector<cost::Device> devices(gpus.devices().begin(), gpus.devices().end());
    devices[1].vector_flops /= 2;
    const cost::Machine machine("mixed", devices, {"switch"},
                                {gpus.links().begin(), gpus.links().end()});
    const Problem problem = make_problem(graph, machine);
    EXPECT_EQ(problem.prices().device_class_count(), 2);
    EXPECT_EQ(problem.prices().device_class(0), problem.prices().device_class(2));
    EXPECT_NE(problem.prices().device_class(0), problem.prices().device_class(1));
}

TEST(DeviceSet, EqualSetsCompareEqualHoweverTheyWereMade) {
    EXPECT_EQ(DeviceSet::list({3}), DeviceSet::single(3));
    EXPECT_EQ(DeviceSet::list({1, 3, 5}), DeviceSet::progression(1, 3, 2));
    EXPECT_NE(DeviceSet::list({1, 3, 4}), DeviceSet::list({1, 3, 5}));
    EXPECT_EQ(DeviceSet::list({}), DeviceSet());
    EXPECT_EQ(DeviceSet::list({4, 1})[1], 1) << "order is kept";
}

}  // namespace
}  // namespace partita::plan
