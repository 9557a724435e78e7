// SPDX-License-Identifier: Apache-2.0
//
// What experts do by hand comes out of the cost of each op's split: Megatron-LM's transformer
// layer, one weird trick, and grids of stages, groups and shared ops.
#include "search/hybrid_parallel/expert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/legality/config_legality.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "search/core/engine.h"
#include "search/hybrid_parallel/intra_op/group_split.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::DeviceSet;
using plan::Problem;

importers::OnnxModel model(const std::string& name, const importers::OnnxOptions& options) {
    return importers::import_onnx(tests::repository() / "examples/models" / name, options);
}

plan::ProblemOptions training(int micro_batches = 1) {
    plan::ProblemOptions options{.mode = plan::Mode::training,
                                 .objective = plan::Objective::step_time};
    options.policy.micro_batches = micro_batches;
    return options;
}

/// Of the products with a weight in order: r(ows, the reduced factor), c(olumns), b(atch) or *.
std::string kinds_of_products(const Problem& problem, const GroupSplit& split) {
    std::string kinds;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId id(i);
        const graph::Op& op = problem.graph().op(id);
        const graph::OpRule& rule = problem.facts().rule(id);
        if (!rule.matrix_product) continue;
        const bool has_weight = op.inputs.size() > 1 && problem.graph().tensor(op.inputs[1]).role ==
                                                            graph::TensorRole::parameter;
        if (!has_weight) continue;
        if (!split.axes[i].is_factor()) {
            kinds += '*';
            continue;
        }
        const auto at = static_cast<std::size_t>(split.axes[i].factor);
        const bool batch =
            problem.facts().is_batched(id) && problem.facts().batch_digits(id)[at].extent > 0;
        kinds += rule.factors[at].reduction ? 'r' : batch ? 'b' : 'c';
    }
    return kinds;
}

// Query, key and value by columns, so that each device has heads of its own; the projection by
// rows; gate and up by columns, down by rows. The head of 128,256 words by columns.
TEST(GroupSplit, OfATransformerIsThatOfMegatron) {
    const auto llama = model("llama-3-8b.onnx", {.bindings = {{"batch", 8}, {"sequence", 512}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    const Problem problem = plan::make_problem(llama.graph, machine, training());
    const GroupSplit split = split_over_group(
        problem, {.group = DeviceSet::progression(0, 4, 1), .replicas = DeviceSet::single(0)});
    const std::string kinds = kinds_of_products(problem, split);
    ASSERT_EQ(kinds.size(), 32u * 7 + 1);
    for (std::size_t layer = 0; layer < 32; ++layer) {
        EXPECT_EQ(kinds.substr(7 * layer, 7), "cccrccr") << "layer " << layer;
    }
    const auto attention = std::ranges::find(llama.graph.ops(), "Attention", &graph::Op::type);
    ASSERT_NE(attention, llama.graph.ops().end());
    const auto at = static_cast<std::size_t>(attention - llama.graph.ops().begin());
    EXPECT_EQ(name_of(problem.facts().rule(OpId(at)), split.axes[at]), "h");
}

// GPT-2 has query, key and value in one product: each device takes its heads of all three.
TEST(GroupSplit, OfAFusedProjectionTakesAPartOfEachThird) {
    const auto gpt2 = model("gpt2-small.onnx", {.bindings = {{"batch", 8}, {"sequence", 512}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    const Problem problem = plan::make_problem(gpt2.graph, machine, training());
    const GroupSplit split = split_over_group(
        problem, {.group = DeviceSet::progression(0, 4, 1), .replicas = DeviceSet::single(0)});
    int fused = 0;
    for (std::size_t i = 0; i < gpt2.graph.op_count(); ++i) {
        const graph::Op& op = gpt2.graph.ops()[i];
        if (op.type == "Split") {
            EXPECT_EQ(name_of(problem.facts().rule(OpId(i)), split.axes[i]), "d2") << op.name;
        }
        const bool wide =
            op.type == "Gemm" && gpt2.graph.tensor(op.outputs[0]).shape.back() == 3 * 768;
        if (!wide) continue;
        EXPECT_EQ(name_of(problem.facts().rule(OpId(i)), split.axes[i]), "n/3") << op.name;
        ++fused;
    }
    EXPECT_EQ(fused, 12);
    EXPECT_EQ(kinds_of_products(problem, split).substr(0, 4), "crcr");
}

// The batch for convolutions, features for the wide layers behind them.
TEST(GroupSplit, OfAlexNetIsOneWeirdTrick) {
    const auto alexnet = model("alexnet.onnx", {.batch = 128});
    const cost::Machine machine = cost::load_machine("k80-cluster");
    const Problem problem = plan::make_problem(alexnet.graph, machine, training());
    const GroupSplit split = split_over_group(problem, {.group = DeviceSet::progression(0, 4, 1),
                                                        .replicas = DeviceSet::single(0),
                                                        .whole_batch = true});
    EXPECT_THAT(kinds_of_products(problem, split), testing::MatchesRegex("bbbbb[cr][cr][cr]"));
}

// The first dim of every input is the batch, here of a mask [queries keys], too: so queries are what the
// devices share already, and heads are not what was asked for.
TEST(GroupSplit, ByQueriesSaysThatThereAreNoneApartFromTheBatch) {
    plan::NetworkBuilder build;
    const auto x = build.source("x", graph::TensorRole::input, {2, 4, 6, 8});
    const auto mask = build.source("mask", graph::TensorRole::input, {6, 6});
    const auto w = build.weight({8, 8});
    const auto q = build.add("MatMul", {x, w}, {{2, 4, 6, 8}})[0];
    build.add("Attention", {q, q, q, mask}, {{2, 4, 6, 8}});
    build.add_outputs();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(build.graph, machine, training());
    const auto fault = [&](AttentionBy attention) {
        return split_over_group(problem, {.group = DeviceSet::progression(0, 2, 1),
                                          .replicas = DeviceSet::single(0),
                                          .must_share = MustShare::activations,
                                          .attention = attention})
            .fault;
    };
    EXPECT_EQ(fault(AttentionBy::heads), "");
    EXPECT_THAT(fault(AttentionBy::queries),
                testing::HasSubstr("(Attention): it has no positions apart from the batch."));
}

//             stage 0                       stage 1
//     group   0: gpu0 gpu1  1: gpu2 gpu3    0: gpu4 gpu5  1: gpu6 gpu7
//     x ─▶ MatMul w1 ─▶ Relu ─▶ MatMul w2 ─▶ MatMul w3 ─▶ Relu ─▶ MatMul w4 ─▶ y
class TwoByTwoByTwo : public testing::Test {
protected:
    TwoByTwoByTwo() : machine_(plan::switched_machine(8)) {
        using plan::add_compute;
        using plan::add_source;
        graph::TensorId last = add_source(graph_, "x", graph::TensorRole::input, {kBatch, kWidth});
        const auto product = [&](const std::string& number, const std::string& block,
                                 std::int64_t from, std::int64_t to) {
            const auto w =
                add_source(graph_, "w" + number, graph::TensorRole::parameter, {from, to});
            last =
                add_compute(graph_, "mul" + number, "MatMul", {last, w}, {kBatch, to}, {}, block);
        };
        for (const int layer : {0, 1}) {
            const std::string block = "layer" + std::to_string(layer);
            const std::string first = std::to_string(2 * layer + 1);
            product(first, block, kWidth, 4 * kWidth);
            last = add_compute(graph_, "relu" + first, "Relu", {last}, {kBatch, 4 * kWidth}, {},
                               block);
            product(std::to_string(2 * layer + 2), block, 4 * kWidth, kWidth);
        }
        graph_.add_output("y", last);
    }

    static constexpr std::int64_t kBatch = 16;
    static constexpr std::int64_t kWidth = 2048;

    graph::OpGraph graph_;
    cost::Machine machine_;
};

TEST_F(TwoByTwoByTwo, IsStagesGroupsAndSharedOps) {
    plan::ProblemOptions options = training(4);
    options.policy.schedule = *plan::schedule_from_text("1f1b");
    const Problem problem = plan::make_problem(graph_, machine_, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    const plan::Strategy strategy =
        Grids(groups).strategy({.stages = 2, .groups = 2, .group_size = 2});
    EXPECT_EQ(find_fault(problem, strategy), std::nullopt);
    const auto config = [&](const char* op) { return strategy.config(*graph_.find_op(op)); };
    using testing::ElementsAre;
    const auto axes = [&](const char* op) {
        return names_of(problem.facts().rule(*graph_.find_op(op)), config(op).axes);
    };
    EXPECT_EQ(axes("mul1"), (plan::AxisNames{{"m", 2}, {"n", 2}}));
    EXPECT_EQ(axes("mul2"), (plan::AxisNames{{"m", 2}, {"k", 2}}));
    EXPECT_EQ(axes("w1"), (plan::AxisNames{{"*", 2}, {"d1", 2}}));
    EXPECT_EQ(config("mul1").devices, DeviceSet::progression(0, 4, 1));
    EXPECT_EQ(config("mul3").devices, DeviceSet::progression(4, 4, 1));
    std::map<std::string, int> count;
    for (const plan::Task& task : lower(problem, strategy).tasks) {
        if (task.kind == plan::TaskKind::copy) ++count["copy"];
        if (task.kind != plan::TaskKind::collective) continue;
        ++count[std::string(cost::name_of(task.collective)) + " " +
                graph_.tensor(task.tensor).name + (task.gradient ? ".grad" : "")];
    }
    // Inside each group, per micro-batch: two products, one sum forward (and none back to x, which
    // has no gradient). Over the groups, once: gradients of each half of a weight.
    EXPECT_EQ(count["all-reduce mul2.out"], 4 * 2);
    EXPECT_EQ(count["all-reduce w1.grad"], 2);
    EXPECT_EQ(count["all-reduce w4.grad"], 2);
}

}  // namespace
}  // namespace partita::search
