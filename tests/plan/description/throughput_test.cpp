// SPDX-License-Identifier: Apache-2.0
//
// Rates are counts of the model over the time of an iteration; the share of the peak counts the
// devices that run something, and neither views nor updates.
#include "plan/description/throughput.h"

#include <gtest/gtest.h>

#include <vector>

#include "cost/machine/machine_file.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

constexpr Time kSecond = milliseconds(1'000);

/// x [64 32] through products of 32 x 32, first and last with a Relu between them.
graph::OpGraph two_products() {
    NetworkBuilder build;
    graph::TensorId x = build.source("x", graph::TensorRole::input, {64, 32});
    x = build.add("MatMul", {x, build.weight({32, 32})}, {{64, 32}})[0];
    x = build.add("Relu", {x}, {{64, 32}})[0];
    build.add("MatMul", {x, build.weight({32, 32})}, {{64, 32}});
    build.add_outputs();
    return std::move(build.graph);
}

Throughput of(const graph::OpGraph& graph, const cost::Machine& machine, Mode mode,
              const std::vector<int>& devices, Time iteration) {
    const Problem problem = make_problem(
        graph, machine,
        {.mode = mode,
         .objective = mode == Mode::training ? Objective::step_time : Objective::latency});
    return throughput_of(problem, on_devices(devices), iteration);
}

TEST(Throughput, CountsProductsOfForwardAndBackward) {
    const graph::OpGraph graph = two_products();
    const cost::Machine machine = switched_machine(2);
    const std::vector<int> devices(graph.op_count(), 0);
    constexpr double kProduct = 2.0 * 64 * 32 * 32;
    const Throughput forward = of(graph, machine, Mode::inference, devices, kSecond);
    EXPECT_DOUBLE_EQ(forward.flops_per_device, 2 * kProduct);
    // The input has no gradient: one product less.
    const Throughput step = of(graph, machine, Mode::training, devices, kSecond);
    EXPECT_DOUBLE_EQ(step.flops_per_device, 5 * kProduct);
    EXPECT_EQ(step.devices, 1);
    EXPECT_DOUBLE_EQ(step.samples, 64);
    EXPECT_EQ(step.tokens, 0);
    EXPECT_DOUBLE_EQ(step.mfu, 5 * kProduct /
                                   static_cast<double>(
                                       machine.device(0).matrix_flops_of(graph::DType::float32)));
    EXPECT_DOUBLE_EQ(of(graph, machine, Mode::training, devices, 2 * kSecond).mfu, step.mfu / 2);
}

TEST(Throughput, IsOfTheDevicesThatRunOps) {
    const graph::OpGraph graph = two_products();
    const cost::Machine machine = switched_machine(4);
    const Throughput one =
        of(graph, machine, Mode::inference, std::vector<int>(graph.op_count(), 3), kSecond);
    std::vector<int> devices(graph.op_count(), 0);
    devices.back() = devices[devices.size() - 2] = 2;  // the last product, and its output
    const Throughput two = of(graph, machine, Mode::inference, devices, kSecond);
    EXPECT_EQ(one.devices, 1);
    EXPECT_EQ(two.devices, 2);
    EXPECT_DOUBLE_EQ(two.mfu, one.mfu / 2);
    EXPECT_DOUBLE_EQ(two.flops_per_device, one.flops_per_device / 2);
    EXPECT_DOUBLE_EQ(two.samples, one.samples);
}

// Of two kinds of devices each product counts what both could do together.
TEST(Throughput, AddsUpPeaksOfUnequalDevices) {
    const graph::OpGraph graph = two_products();
    const cost::Machine machine = cost::load_machine("a100-t4");
    std::vector<int> devices(graph.op_count(), 0);
    devices.back() = machine.device_count() - 1;
    double peak = 0;
    for (const int d : {0, machine.device_count() - 1}) {
        peak += static_cast<double>(machine.device(d).matrix_flops_of(graph::DType::float32));
    }
    ASSERT_NE(machine.device(0).model, machine.device(machine.device_count() - 1).model);
    devices[devices.size() - 2] = machine.device_count() - 1;
    const Throughput both = of(graph, machine, Mode::inference, devices, kSecond);
    EXPECT_NEAR(both.mfu, 2 * 2.0 * 64 * 32 * 32 / peak, 1e-12);
}

TEST(Throughput, OfNoTimeIsNone) {
    const graph::OpGraph graph = two_products();
    const Throughput none = of(graph, switched_machine(1), Mode::inference,
                               std::vector<int>(graph.op_count(), 0), Time{0});
    EXPECT_EQ(none.samples, 0);
    EXPECT_EQ(none.mfu, 0);
}

/// ids [4 16] to rows of a table, through `through` where that is an operator.
graph::OpGraph lookup(const std::string& through,
                      graph::TensorRole table = graph::TensorRole::parameter) {
    NetworkBuilder build;
    graph::TensorId ids =
        build.source("ids", graph::TensorRole::input, {4, 16}, graph::DType::int64);
    if (!through.empty()) {
        graph::Attributes attributes;
        if (through == "Cast") attributes.set("to", std::int64_t{7});
        ids = build.add(through, {ids}, {{4, 16}}, attributes)[0];
        build.graph.tensor(ids).dtype = graph::DType::int64;
    }
    const graph::TensorId rows = build.source("table", table, {100, 8});
    build.add("Gather", {rows, ids}, {{4, 16, 8}}, attribute("axis", std::int64_t{0}));
    build.add_outputs();
    return std::move(build.graph);
}

TEST(TokenCount, IsThatOfIdsWhichLookUpRowsOfAParameter) {
    EXPECT_EQ(token_count(lookup("")), 64);
    EXPECT_EQ(token_count(lookup("Identity")), 64);
    EXPECT_EQ(token_count(lookup("Cast")), 64);
    EXPECT_EQ(token_count(lookup("Abs")), 0);
    EXPECT_EQ(token_count(lookup("", graph::TensorRole::constant)), 0);
    EXPECT_EQ(token_count(two_products()), 0);
}

}  // namespace
}  // namespace partita::plan
