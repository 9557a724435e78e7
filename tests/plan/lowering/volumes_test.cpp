// SPDX-License-Identifier: Apache-2.0
//
// What each known way of splitting communicates comes out of factor rules alone: REFERENCES 1 and
// 4, and Megatron's transformer layer. Elements as the collectives count them; the (p-1)/p of a
// ring is the cost model's business.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/layers.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorId;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class Layers : public LayersTest {};

TEST_F(Layers, DataParallelismAllReducesTheGradientsOfWeights) {
    build({kIn, kOut});
    EXPECT_THAT(volumes(strategy({{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"y", {{"d0", 4}}}})),
                ElementsAre(Pair("all-reduce w1.grad", kIn * kOut)));
}

// Inputs come gathered, their gradients are summed (here x is an input and has none).
TEST_F(Layers, PartitionedOutputsGatherInputsAndSumTheirGradients) {
    build({kIn, kIn, kOut});
    const auto found = volumes(strategy({{"mul1", {{"n", 4}}},
                                         {"w1", {{"d1", 4}}},
                                         {"mul2", {{"n", 4}}},
                                         {"w2", {{"d1", 4}}},
                                         {"y", {{"d1", 4}}}}));
    EXPECT_THAT(found, ElementsAre(Pair("all-gather mul1.out", kBatch * kIn),
                                   Pair("reduce-scatter mul1.out.grad", kBatch * kIn)));
}

TEST_F(Layers, ReducedOutputsAllReducePartialSumsAndNothingElse) {
    build({kIn, kOut});
    EXPECT_THAT(volumes(strategy({{"x", {{"d1", 4}}}, {"mul1", {{"k", 4}}}, {"w1", {{"d0", 4}}}})),
                ElementsAre(Pair("all-reduce mul1.out", kBatch * kOut)));
}

// Column-wise then row-wise: nothing between the two layers, one all-reduce per two layers forward,
// and one backward for a hidden operand.
TEST_F(Layers, AlternatingColumnsAndRowsSynchronizeOncePerTwoLayersEachWay) {
    build({kIn, kIn, kOut, kIn, kOut});
    const auto found = volumes(strategy({{"mul1", {{"n", 4}}},
                                         {"w1", {{"d1", 4}}},
                                         {"mul2", {{"k", 4}}},
                                         {"w2", {{"d0", 4}}},
                                         {"mul3", {{"n", 4}}},
                                         {"w3", {{"d1", 4}}},
                                         {"mul4", {{"k", 4}}},
                                         {"w4", {{"d0", 4}}}}));
    EXPECT_THAT(found, ElementsAre(Pair("all-reduce mul2.out", kBatch * kOut),
                                   Pair("all-reduce mul4.out", kBatch * kOut),
                                   Pair("all-reduce mul2.out.grad", kBatch * kOut)));
}

// Query, key and value side by side: in thirds nothing moves; as one dim their parts are in the
// wrong places. Behind the Split every device goes on with its own.
TEST_F(Layers, AFusedProjectionInThirdsMovesNothing) {
    const TensorId x = source("x", graph::TensorRole::input, {kBatch, kIn});
    const TensorId w = source("w", graph::TensorRole::parameter, {kIn, 3 * kOut});
    const TensorId qkv = compute("mul", "MatMul", {x, w}, {kBatch, 3 * kOut});
    graph::Op op;
    op.name = "split";
    op.type = "Split";
    op.opset = 17;
    op.inputs = {qkv};
    op.attributes.set("axis", std::int64_t{1});
    for (const char* name : {"q", "k", "v"}) {
        graph::Tensor tensor;
        tensor.name = name;
        tensor.shape = {kBatch, kOut};
        op.outputs.push_back(graph_.add_tensor(std::move(tensor)));
    }
    const std::vector<TensorId> parts = op.outputs;
    graph_.add_op(std::move(op));
    for (const TensorId t : parts) graph_.add_output(graph_.tensor(t).name + "_out", t);
    std::map<std::string, AxisNames> splits{{"split", {{"d1", 4}}},
                                            {"q_out", {{"d1", 4}}},
                                            {"k_out", {{"d1", 4}}},
                                            {"v_out", {{"d1", 4}}}};
    splits["mul"] = {{"n/3", 4}};
    splits["w"] = {{"d1/3", 4}};
    EXPECT_THAT(volumes(strategy(splits)), IsEmpty());
    splits["mul"] = {{"n", 4}};
    splits["w"] = {{"d1", 4}};
    EXPECT_THAT(volumes(strategy(splits)), testing::Not(IsEmpty()));
}

/// "pack mul1.out gpu0 (2)" and the like.
std::vector<std::string> packs(const Problem& problem, const Strategy& strategy) {
    std::vector<std::string> names;
    for (const Task& task : lower(problem, strategy).tasks) {
        if (task.kind == TaskKind::pack) names.push_back(task_name(problem, task));
    }
    return names;
}

// Rows of a matrix are one piece of memory, columns are not: what is gathered by columns must be
// unpacked, what is sent from rows to columns packed, from columns to rows unpacked.
TEST_F(Layers, ColumnsArePackedAndUnpacked) {
    build({kIn, kIn});
    const Problem problem = make_problem(graph_, machine_);
    const auto of = [&](const PlannedAxis& given, const PlannedAxis& wanted) {
        return packs(problem, strategy({{"mul1", {given}}, {"y", {wanted}}}));
    };
    EXPECT_THAT(of({"m", 4}, {"*", 4}), IsEmpty());
    EXPECT_THAT(of({"n", 4}, {"*", 4}), ElementsAre("pack mul1.out gpu0", "pack mul1.out gpu1",
                                                    "pack mul1.out gpu2", "pack mul1.out gpu3"));
    EXPECT_EQ(of({"m", 4}, {"d1", 4}).size(), 4U);
    EXPECT_EQ(of({"n", 4}, {"d0", 4}).size(), 4U);
    EXPECT_THAT(of({"k", 4}, {"*", 4}), IsEmpty());
    EXPECT_THAT(of({"k", 4}, {"d0", 4}), IsEmpty());
    EXPECT_EQ(of({"k", 4}, {"d1", 4}).size(), 4U);
}

/// mul1 on both devices of node 0, mul2 on both of node 1.
class LayersOnNodes : public LayersTest {
protected:
    LayersOnNodes() { machine_ = machine_of_nodes(2, kDevices / 2); }
    Strategy on_nodes() {
        Strategy found = strategy({{"x", {{"*", 2}}},
                                   {"w1", {{"*", 2}}},
                                   {"mul1", {{"*", 2}}},
                                   {"w2", {{"d1", 2}}},
                                   {"mul2", {{"n", 2}}},
                                   {"y", {{"d1", 2}}}});
        for (std::size_t i = 0; i < found.ops.size(); ++i) {
            const std::string& name = graph_.op(OpId(i)).name;
            const bool later = name == "w2" || name == "mul2" || name == "y";
            found.ops[i].config.devices = DeviceSet::progression(later ? 2 : 0, 2, 1);
        }
        return found;
    }
};

// Megatron-LM's scatter/gather between stages, forward and backward: half of the tensor for each
// device instead of all of it.
TEST_F(LayersOnNodes, WhatBothDevicesOfANodeNeedCrossesOnce) {
    build({kIn, kIn, kOut});
    const std::int64_t half = kBatch * kIn / 2;
    EXPECT_THAT(
        volumes(on_nodes()),
        ElementsAre(Pair("copy mul1.out", half), Pair("copy mul1.out", half),
                    Pair("all-gather mul1.out", 2 * half),
                    Pair("all-reduce mul1.out.grad", 2 * half), Pair("copy mul1.out.grad", half),
                    Pair("copy mul1.out.grad", half), Pair("all-gather mul1.out.grad", 2 * half)));
    EXPECT_THAT(packs(make_problem(graph_, machine_), on_nodes()), IsEmpty());
}

// 7 rows are no two equal pieces of memory, 12 columns are: the copies are packed where they begin,
// what is gathered is unpacked.
TEST_F(LayersOnNodes, StridedSlicesArePacked) {
    build({kIn, kIn, kOut}, 7);
    EXPECT_THAT(packs(make_problem(graph_, machine_), on_nodes()),
                ElementsAre("pack mul1.out gpu0", "pack mul1.out gpu1", "pack mul1.out gpu2",
                            "pack mul1.out gpu3"));
}

// Every rank has a share of what is gathered, the root too, whether it gives one or not.
TEST_F(Layers, GatheringCountsTheShareOfItsRoot) {
    build({kIn, kOut});
    Strategy outside = strategy({{"x", {{"d0", 2}}}, {"mul1", {{"m", 2}}}, {"y", {}}});
    EXPECT_THAT(volumes(outside), testing::Contains(Pair("gather mul1.out", kBatch * kOut)));
    outside.ops.back().config.devices = DeviceSet::single(3);
    EXPECT_THAT(volumes(outside),
                testing::Contains(Pair("gather mul1.out", 3 * kBatch / 2 * kOut)));
}

/// A parameter server: parameters on device 0, batches on all four.
TEST_F(Layers, AParameterServerBroadcastsParametersAndReducesGradients) {
    build({kIn, kOut});
    Strategy server =
        strategy({{"x", {{"d0", 4}}}, {"mul1", {{"m", 4}}}, {"y", {{"d0", 4}}}, {"w1", {}}});
    EXPECT_THAT(volumes(server),
                ElementsAre(Pair("broadcast w1", kIn * kOut), Pair("reduce w1.grad", kIn * kOut)));
}

/// Tables split over devices, the rest by the batch: an all-to-all each way.
TEST_F(Layers, ColumnsOfAnEmbeddingGoAllToAllToTheBatch) {
    build_embedding();
    const auto found = volumes(strategy(
        {{"table", {{"d1", 4}}}, {"look", {{"d1", 4}}}, {"mul", {{"m", 4}}}, {"y", {{"d0", 4}}}}));
    EXPECT_THAT(found, ElementsAre(Pair("all-to-all look.out", kBatch * kIn / 4),
                                   Pair("all-reduce w.grad", kIn * kOut),
                                   Pair("all-to-all look.out.grad", kBatch * kIn / 4)));
}

// Rows of a table: a part masks what it has not, so lookups are partial sums (RULES.md 5).
TEST_F(Layers, RowsOfAnEmbeddingAreReduceScatteredToTheBatch) {
    build_embedding();
    const auto found = volumes(strategy(
        {{"table", {{"d0", 4}}}, {"look", {{"x", 4}}}, {"mul", {{"m", 4}}}, {"y", {{"d0", 4}}}}));
    EXPECT_THAT(found, ElementsAre(Pair("reduce-scatter look.out", kBatch * kIn),
                                   Pair("all-reduce w.grad", kIn * kOut),
                                   Pair("all-gather look.out.grad", kBatch * kIn)));
}

// A spatial split of a convolution: neighbours exchange the rows that their windows share, and the
// gradients of those rows come back and are added (RULES.md 11).
TEST_F(Layers, AConvolutionSplitInSpaceExchangesHalos) {
    const TensorId x = source("x", graph::TensorRole::input, {1, 1, 16, 3});
    graph::Attributes window;
    window.set("kernel_shape", std::vector<std::int64_t>{3, 3});
    window.set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
    const TensorId w1 = source("w1", graph::TensorRole::parameter, {1, 1, 3, 3});
    const TensorId w2 = source("w2", graph::TensorRole::parameter, {1, 1, 3, 3});
    const TensorId a = compute("conv1", "Conv", {x, w1}, {1, 1, 16, 3}, window);
    graph_.add_output("y", compute("conv2", "Conv", {a, w2}, {1, 1, 16, 3}, window));
    const Problem problem =
        make_problem(graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
    const std::string rows =
        problem.facts()
            .rule(*graph_.find_op("conv1"))
            .factors[static_cast<std::size_t>(
                problem.facts().rule(*graph_.find_op("conv1")).results[0].dims[2].factors[0])]
            .name;
    std::map<std::string, std::int64_t> sent;
    for (const auto& [name, elements] : volumes(strategy({{"x", {{"d2", 4}}},
                                                          {"conv1", {{rows, 4}}},
                                                          {"conv2", {{rows, 4}}},
                                                          {"y", {{"d2", 4}}}}))) {
        sent[name] += elements;
    }
    // Three borders, a row of 3 from each side of each.
    EXPECT_THAT(sent,
                UnorderedElementsAre(Pair("copy x", 3 * 2 * 3), Pair("copy conv1.out", 18),
                                     Pair("copy conv1.out.grad", 18), Pair("all-reduce w1.grad", 9),
                                     Pair("all-reduce w2.grad", 9)));
}

// RULES.md 6-8: a bias is added by one part alone, and the other's gradient of it is not asked for.
TEST_F(Layers, TheBiasOfAReductionSplitGemmIsAppliedOnce) {
    const TensorId x = source("x", graph::TensorRole::input, {kBatch, kIn});
    const TensorId w = source("w", graph::TensorRole::parameter, {kIn, kOut});
    const TensorId b = source("b", graph::TensorRole::parameter, {kOut});
    graph_.add_output("y", compute("fc", "Gemm", {x, w, b}, {kBatch, kOut}));
    const auto found =
        volumes(strategy({{"x", {{"d1", 4}}}, {"w", {{"d0", 4}}}, {"b", {}}, {"fc", {{"k", 4}}}}));
    EXPECT_THAT(found, ElementsAre(Pair("all-reduce fc.out", kBatch * kOut)));
}

/// Megatron's transformer layer: attention by heads, column-wise then row-wise products, LayerNorm
/// and residuals repeated on every device.
class Transformer : public Layers {
protected:
    static constexpr std::int64_t kLength = 6;
    static constexpr std::int64_t kHeads = 4;
    static constexpr std::int64_t kHead = 3;
    static constexpr std::int64_t kHidden = kHeads * kHead;

    TensorId parameter(const std::string& name, graph::Shape shape) {
        return source(name, graph::TensorRole::parameter, std::move(shape));
    }

    TensorId normalised(const std::string& name, TensorId x) {
        return compute(
            name, "LayerNormalization",
            {x, parameter(name + ".scale", {kHidden}), parameter(name + ".bias", {kHidden})},
            {kLength, kHidden});
    }

    TensorId product(const std::string& name, TensorId x, std::int64_t from, std::int64_t to) {
        const TensorId w = parameter(name + ".w", {from, to});
        splits_[name] = {{from >= to && name != "q" && name != "k" && name != "v" ? "k" : "n", 4}};
        splits_[name + ".w"] = {{splits_[name][0].factor == "k" ? "d0" : "d1", 4}};
        return compute(name, "MatMul", {x, w}, {kLength, to});
    }

    /// Splits the op by what its result's dim is made of first.
    void split_by(const std::string& name, std::size_t dim) {
        const OpId op = *graph_.find_op(name);
        const graph::OpRule rule = rule_of(graph_, op);
        const int factor = rule.results[0].dims[dim].factors[0];
        splits_[name] = {{rule.factors[static_cast<std::size_t>(factor)].name, 4}};
    }

    TensorId split_op(const std::string& name, const std::string& type,
                      std::vector<TensorId> operands, graph::Shape shape, std::size_t dim,
                      graph::Attributes attributes = {}) {
        const TensorId result =
            compute(name, type, std::move(operands), std::move(shape), std::move(attributes));
        split_by(name, dim);
        return result;
    }

    TensorId reshaped(const std::string& name, TensorId x, const graph::Shape& shape,
                      std::size_t dim) {
        graph::Tensor target;
        target.name = name + ".shape";
        target.dtype = graph::DType::int64;
        target.shape = {static_cast<std::int64_t>(shape.size())};
        target.role = graph::TensorRole::constant;
        target.known_integers = shape;
        const TensorId to = graph_.add_source(std::move(target));
        return split_op(name, "Reshape", {x, to}, shape, dim);
    }

    TensorId transposed(const std::string& name, TensorId x, std::vector<std::int64_t> permutation,
                        graph::Shape shape, std::size_t dim) {
        graph::Attributes attributes;
        attributes.set("perm", std::move(permutation));
        return split_op(name, "Transpose", {x}, std::move(shape), dim, std::move(attributes));
    }

    /// [length hidden] as [heads ...] for one of query, key and value.
    TensorId heads(const std::string& name, TensorId x, std::vector<std::int64_t> permutation,
                   graph::Shape shape) {
        const TensorId whole = product(name, x, kHidden, kHidden);
        const TensorId apart = reshaped(name + ".heads", whole, {kLength, kHeads, kHead}, 1);
        return transposed(name + ".turned", apart, std::move(permutation), std::move(shape), 0);
    }

    void build_layer() {
        const TensorId x = source("x", graph::TensorRole::input, {kLength, kHidden});
        const TensorId first = normalised("norm1", x);
        const TensorId q = heads("q", first, {1, 0, 2}, {kHeads, kLength, kHead});
        const TensorId k = heads("k", first, {1, 2, 0}, {kHeads, kHead, kLength});
        const TensorId v = heads("v", first, {1, 0, 2}, {kHeads, kLength, kHead});
        const TensorId scores = split_op("scores", "MatMul", {q, k}, {kHeads, kLength, kLength}, 0);
        const TensorId weights =
            split_op("weights", "Softmax", {scores}, {kHeads, kLength, kLength}, 0);
        const TensorId mixed =
            split_op("mixed", "MatMul", {weights, v}, {kHeads, kLength, kHead}, 0);
        const TensorId turned =
            transposed("mixed.turned", mixed, {1, 0, 2}, {kLength, kHeads, kHead}, 1);
        const TensorId joined = reshaped("joined", turned, {kLength, kHidden}, 1);
        const TensorId attended = product("projection", joined, kHidden, kHidden);
        const TensorId residual = compute("add1", "Add", {x, attended}, {kLength, kHidden});
        const TensorId second = normalised("norm2", residual);
        const TensorId wide = product("wide", second, kHidden, 4 * kHidden);
        const TensorId active = split_op("active", "Gelu", {wide}, {kLength, 4 * kHidden}, 1);
        const TensorId narrow = product("narrow", active, 4 * kHidden, kHidden);
        graph_.add_output("y", compute("add2", "Add", {residual, narrow}, {kLength, kHidden}));
    }

    std::map<std::string, AxisNames> splits_;
};

// Two all-reduces forward (after the projection and the second product), two backward (before the
// norms); norms, residuals and their parameters need none.
TEST_F(Transformer, SynchronizesTwiceEachWay) {
    build_layer();
    EXPECT_THAT(volumes(strategy(splits_)),
                ElementsAre(Pair("all-reduce projection.out", kLength * kHidden),
                            Pair("all-reduce narrow.out", kLength * kHidden),
                            Pair("all-reduce norm2.out.grad", kLength * kHidden),
                            Pair("all-reduce norm1.out.grad", kLength * kHidden)));
}

/// Residual connections whose layers leave partial sums: added as they are, then reduced once.
TEST_F(Layers, PartialSumsPassThroughAnAdditionOnASummandAxis) {
    build({kIn, kIn});
    const TensorId x = TensorId(0U);
    const TensorId w = source("v", graph::TensorRole::parameter, {kIn, kIn});
    const TensorId other = compute("other", "MatMul", {x, w}, {kBatch, kIn});
    const TensorId first = graph_.op(*graph_.find_op("mul1")).outputs[0];
    graph_.add_output("z", compute("sum", "Add", {first, other}, {kBatch, kIn}));
    const auto found = volumes(strategy({{"x", {{"d1", 4}}},
                                         {"w1", {{"d0", 4}}},
                                         {"v", {{"d0", 4}}},
                                         {"mul1", {{"k", 4}}},
                                         {"other", {{"k", 4}}},
                                         {"sum", {{"+", 4}}},
                                         {"y", {{"d0", 4}}}}));
    EXPECT_THAT(found, UnorderedElementsAre(Pair("all-reduce sum.out", kBatch * kIn),
                                            Pair("reduce-scatter mul1.out", kBatch * kIn),
                                            Pair("all-gather mul1.out.grad", kBatch * kIn)));
}

TEST_F(Layers, ASummandAxisNeedsAPartialOperand) {
    build({kIn, kIn});
    const Problem problem =
        make_problem(graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
    const auto fault = find_fault(problem, strategy({{"mul1", {{"+", 4}}}}));
    ASSERT_TRUE(fault);
    EXPECT_THAT(*fault, testing::HasSubstr("comes in 1 summands, not in 4"));
}

}  // namespace
}  // namespace partita::plan
