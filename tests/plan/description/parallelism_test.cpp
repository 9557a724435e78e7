// SPDX-License-Identifier: Apache-2.0
//
// Configs by hand are called what people call them. That configurations are read back from the
// strategies that searchers make of them is in tests/search/hybrid_parallel/grid_search_test.cpp.
#include "plan/description/parallelism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpId;
using testing::ElementsAre;
using testing::HasSubstr;

ProblemOptions training() {
    return {.mode = Mode::training, .objective = Objective::step_time};
}

OpConfig on_all(const Problem& problem, OpId op,
                const std::vector<std::pair<const char*, int>>& axes) {
    OpConfig config;
    int parts = 1;
    for (const auto& [name, degree] : axes) {
        config.axes.push_back(*axis_of(problem.facts().rule(op), name, degree));
        parts *= degree;
    }
    config.devices = DeviceSet::progression(0, parts, 1);
    return config;
}

/// x [8 16] -> mul1 w1 [16 16] -> relu -> mul2 w2 [16 4], on four devices.
class OfTwoLayers : public testing::Test {
protected:
    OfTwoLayers() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            strategy_.ops[i].config.devices = DeviceSet::single(0);
        }
    }

    void split(const char* op, const std::vector<std::pair<const char*, int>>& axes) {
        const OpId id = *graph_.find_op(op);
        strategy_.ops[id.index()].config = on_all(problem_, id, axes);
    }
    [[nodiscard]] Parallelism read() const { return parallelism_of(problem_, strategy_); }

    graph::OpGraph graph_ = two_layers();
    cost::Machine machine_ = switched_machine(4);
    Problem problem_ = make_problem(graph_, machine_, training());
    Strategy strategy_{.ops = std::vector<OpDecision>(graph_.op_count()), .policy = {}};
};

TEST_F(OfTwoLayers, OnOneDeviceIsWhole) {
    const Parallelism parallelism = read();
    EXPECT_EQ(parallelism.devices, 1);
    EXPECT_TRUE(parallelism.regular({}));
    EXPECT_THAT(lines_of(parallelism, {}), ElementsAre("all on one device"));
}

TEST_F(OfTwoLayers, TheBatchIsDataParallelism) {
    for (const char* op : {"mul1", "mul2"}) split(op, {{"m", 4}});
    split("w1", {{"*", 4}});
    split("w2", {{"*", 4}});
    const Parallelism parallelism = read();
    EXPECT_EQ(parallelism.data, 4);
    EXPECT_EQ(parallelism.tensor, 1);
    EXPECT_DOUBLE_EQ(parallelism.share, 1);
    ASSERT_EQ(parallelism.parameters.size(), 1U);
    EXPECT_EQ(parallelism.parameters[0].copies, 4);
    EXPECT_EQ(parallelism.parameters[0].bytes, Bytes{(16 * 16 + 16 * 4) * 4});
}

TEST_F(OfTwoLayers, ColumnsAndRowsAreTensorParallelism) {
    split("mul1", {{"m", 2}, {"n", 2}});
    split("mul2", {{"m", 2}, {"k", 2}});
    const Parallelism parallelism = read();
    EXPECT_EQ(parallelism.data, 2);
    EXPECT_EQ(parallelism.tensor, 2);
    EXPECT_TRUE(parallelism.regular({}));
    ASSERT_EQ(parallelism.products.size(), 2U);
    EXPECT_EQ(parallelism.products[0].split, (ProductSplit{.data = 2, .columns = 2}));
    EXPECT_THAT(parallelism.products[0].names, ElementsAre("w1"));
    EXPECT_EQ(parallelism.products[1].split, (ProductSplit{.data = 2, .rows = 2}));
    const std::vector<std::string> lines = lines_of(parallelism, {});
    EXPECT_EQ(lines[0], "data x 2, tensor x 2 on 4 devices");
    EXPECT_EQ(lines[1], "tensor: columns of 1 product (w1), rows of 1 product (w2)");
}

// 2 * 8 * 16 * 16 FLOP against 2 * 8 * 16 * 4.
TEST_F(OfTwoLayers, WhatDiffersIsSaidWithItsShare) {
    split("mul1", {{"m", 4}});
    split("mul2", {{"n", 2}, {"*", 2}});
    const Parallelism parallelism = read();
    EXPECT_EQ(parallelism.data, 4);
    EXPECT_DOUBLE_EQ(parallelism.share, 0.8);
    EXPECT_FALSE(parallelism.regular({}));
    EXPECT_THAT(
        lines_of(parallelism, {}).back(),
        HasSubstr("otherwise: 1 product (w2) columns x 2, repeated x 2, 20.0 % of the FLOPs"));
}

TEST_F(OfTwoLayers, DevicesThatShareOpsAreStages) {
    for (const char* op : {"mul2", "w2", "y"}) {
        strategy_.ops[graph_.find_op(op)->index()].config.devices = DeviceSet::single(1);
    }
    const Parallelism parallelism = read();
    ASSERT_EQ(parallelism.stages.size(), 2U);
    EXPECT_EQ(parallelism.stages[0].devices, 1);
    EXPECT_EQ(parallelism.stages[0].ops, 2);
    EXPECT_GT(parallelism.stages[0].share, parallelism.stages[1].share);
    EXPECT_TRUE(parallelism.regular({}));
    EXPECT_THAT(lines_of(parallelism, {})[0], HasSubstr("2 stages, ops whole on 2 devices"));
}

// Names of blocks are told without what all of them begin with.
TEST(OfEqualLayers, StagesNameTheirBlocks) {
    const graph::OpGraph graph = equal_layers(4);
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, training());
    std::vector<int> devices(graph.op_count(), 0);
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const std::string& block = graph.op(OpId(i)).block;
        if (block.empty() || block > "layers.1") devices[i] = 1;
    }
    devices[0] = 0;  // x
    const std::vector<std::string> lines =
        lines_of(parallelism_of(problem, on_devices(devices)), {});
    ASSERT_GE(lines.size(), 2U);
    EXPECT_EQ(lines[1], "stages: 0 .. 1 (50 %) | 2 .. 3 (50 %)");
}

// A merged dim (b s) that is cut at a sample is data parallelism, a sequence of its own is not.
TEST(OfASequence, PositionsAreContext) {
    NetworkBuilder build;
    graph::TensorId x = build.source("x", graph::TensorRole::input, {4, 8, 16});
    build.add("MatMul", {x, build.weight({16, 16})}, {{4, 8, 16}});
    build.add_outputs();
    const cost::Machine machine = switched_machine(4);
    const Problem problem = make_problem(build.graph, machine, training());
    Strategy strategy = on_devices(std::vector<int>(build.graph.op_count(), 0));
    const OpId product = *build.graph.find_op("MatMul1");
    const graph::OpRule& rule = problem.facts().rule(product);
    std::string sample;
    std::string position;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const bool of_weight = rule.factors[f].reduction || rule.factors[f].extent == 16;
        if (of_weight) continue;
        (problem.facts().batch_digits(product)[f].extent > 0 ? sample : position) =
            rule.factors[f].name;
    }
    strategy.ops[product.index()].config =
        on_all(problem, product, {{sample.c_str(), 2}, {position.c_str(), 2}});
    const Parallelism parallelism = parallelism_of(problem, strategy);
    EXPECT_EQ(parallelism.data, 2);
    EXPECT_EQ(parallelism.context, 2);
    EXPECT_EQ(parallelism.tensor, 1);
}

TEST(NamesOfWeights, AreShortAndNotMadeUp) {
    const auto names_of = [](const char* name) {
        NetworkBuilder build;
        const graph::TensorId x = build.source("x", graph::TensorRole::input, {4, 16});
        const graph::TensorId w = build.source(name, graph::TensorRole::parameter, {16, 16});
        build.add("MatMul", {x, w}, {{4, 16}});
        build.add_outputs();
        const cost::Machine machine = switched_machine(1);
        const Problem problem = make_problem(build.graph, machine);
        return parallelism_of(problem, on_devices(std::vector<int>(build.graph.op_count(), 0)))
            .products[0]
            .names;
    };
    EXPECT_THAT(names_of("model.layers.3.self_attn.q_proj.weight"), ElementsAre("q_proj"));
    EXPECT_THAT(names_of("mlp/4/kernel"), ElementsAre("mlp"));
    EXPECT_THAT(names_of("val_152"), ElementsAre());
    EXPECT_THAT(names_of("onnx::MatMul_960"), ElementsAre());
    EXPECT_THAT(names_of("12.weight"), ElementsAre());
}

}  // namespace
}  // namespace partita::plan
