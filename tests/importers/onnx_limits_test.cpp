// SPDX-License-Identifier: Apache-2.0
//
// Small files that ask for much: what is refused, with which node's name, and what is left undone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "graph/operators/op_rule.h"
#include "importers/onnx/constant_folding.h"
#include "tests/importers/hostile_models.h"

namespace partita::importers {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Literal integers_of(const Ints& shape, const Ints& values) {
    Literal literal = make_literal(graph::DType::int64, shape);
    std::get<0>(literal.values) = values;
    return literal;
}

std::optional<Literals> fold_with(std::string_view type, const std::vector<Literal>& literals,
                                  std::int64_t* work_left) {
    const graph::Attributes none;
    std::vector<FoldOperand> operands;
    for (const Literal& literal : literals) operands.push_back({true, &literal, &literal.shape});
    return fold({.type = type,
                 .opset = 22,
                 .attributes = none,
                 .tensors = {},
                 .operands = operands,
                 .work_left = work_left});
}

TEST(FoldingWork, IsSpentByEveryNodeUntilNoneIsLeft) {
    const Literal list = integers_of({100}, Ints(100, 7));
    const Literal axis = integers_of({1}, {0});
    std::int64_t left = 500;
    EXPECT_TRUE(fold_with("ReduceMax", {list, axis}, &left).has_value());
    EXPECT_LT(left, 500 - 100);
    EXPECT_GE(left, 0);
    while (left >= 0) (void)fold_with("ReduceMax", {list, axis}, &left);
    EXPECT_FALSE(fold_with("Add", {axis, axis}, &left).has_value());
}

TEST(FoldingWork, CountsEveryStepOfOperatorsOfManyOperands) {
    // The first pair makes 10,000 elements of 200; each later one walks through all of them.
    std::vector<Literal> literals(1000, integers_of({1, 1}, {1}));
    literals[0] = integers_of({100, 1}, Ints(100, 1));
    literals[1] = integers_of({1, 100}, Ints(100, 1));
    std::int64_t left = 1'000'000;
    EXPECT_FALSE(fold_with("Sum", literals, &left).has_value());
}

TEST(Folding, OfEmptyTensorsOfGiantExtentsIsLeft) {
    const Literal shape = integers_of({2}, {std::int64_t{1} << 40, 0});
    EXPECT_FALSE(fold_with("ConstantOfShape", {shape}, nullptr).has_value());
    EXPECT_FALSE(fold_with("Reshape", {integers_of({0}, {}), shape}, nullptr).has_value());
    EXPECT_FALSE(fold_with("Expand", {integers_of({1, 0}, {}), shape}, nullptr).has_value());
}

TEST(Folding, OfPowTakesAnyExponentThatFits) {
    const Literal bases = integers_of({3}, {-1, 0, 1});
    const auto powers =
        fold_with("Pow", {bases, integers_of({1}, {(std::int64_t{1} << 62) + 1})}, nullptr);
    ASSERT_TRUE(powers.has_value());
    EXPECT_EQ(std::get<0>(powers->at(0).values), (std::vector<std::int64_t>{-1, 0, 1}));
    const auto lowest = fold_with("Pow", {integers_of({}, {-2}), integers_of({}, {63})}, nullptr);
    ASSERT_TRUE(lowest.has_value());
    EXPECT_EQ(lowest->at(0).integer(0), std::numeric_limits<std::int64_t>::min());
    EXPECT_FALSE(
        fold_with("Pow", {integers_of({}, {2}), integers_of({}, {63})}, nullptr).has_value());
}

// --- ranks -------------------------------------------------------------------------------------

TEST(Ranks, OfMoreThanSixtyFourDimsAreRefusedByTheirName) {
    onnx::ModelProto model = empty_model();
    add_input(*model.mutable_graph(), "x", Ints(65, 1));
    add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
    add_output(*model.mutable_graph(), "y");
    EXPECT_THAT(
        refusal(model),
        StartsWith("hostile.onnx: input 'x': expected 'x' to have at most 64 dims, got 65"));
}

TEST(Ranks, ThatANodeMakesNameTheNode) {
    onnx::ModelProto model = empty_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1});
    add_integers(graph, "target", {65}, Ints(65, 1));
    add_node(graph, "Reshape", {"x", "target"}, {"y"}).set_name("widen");
    add_output(graph, "y");
    EXPECT_THAT(refusal(model), StartsWith("hostile.onnx: node 'widen' (Reshape): expected 'y' to "
                                           "have at most 64 dims, got 65"));
}

// --- operators before their time ----------------------------------------------------------------

// GatherND came with opset 11: nothing has looked at its operands.
TEST(OperatorsOfLaterOpsets, AreNotTakenForWhatTheyBecame) {
    onnx::ModelProto model = empty_model();
    model.mutable_opset_import(0)->set_version(9);
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2, 2});
    add_node(graph, "GatherND", {"x", ""}, {"y"});
    add_output(graph, "y");
    EXPECT_THAT(refusal(model), HasSubstr("'y'"));
}

// --- multiplied by functions -------------------------------------------------------------------

void call(onnx::ModelProto& model, const std::string& function, int times) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2});
    for (int i = 0; i < times; ++i) {
        const std::string result = "r" + std::to_string(i);
        add_node(graph, function, {"x"}, {result}).set_domain("f");
        add_output(graph, result);
    }
}

TEST(CallsOfFunctions, MayNotMultiplyAttributesIntoGigabytes) {
    onnx::ModelProto model = empty_model();
    onnx::NodeProto& node =
        add_node(*add_function(model, "F").mutable_node(), "Relu", {"x"}, {"y"});
    node.set_name("wide");
    set_ints(node, "__list", Ints(500'000, 1));
    call(model, "F", 300);
    const std::string message = refusal(model);
    EXPECT_THAT(message, StartsWith("hostile.onnx: node '"));
    EXPECT_THAT(message, HasSubstr("/wide' (Relu): to read the model up to here takes more than"));
}

TEST(CallsOfFunctions, MayNotMultiplyNamesIntoGigabytes) {
    onnx::ModelProto model = empty_model();
    add_node(*add_function(model, "F0").mutable_node(), "Relu", {"x"}, {"y"});
    const std::string name(10'000, 'n');
    constexpr int kDeep = 14;
    for (int i = 1; i <= kDeep; ++i) {
        auto& nodes = *add_function(model, "F" + std::to_string(i)).mutable_node();
        for (const auto& [from, to] : {std::pair("x", "a"), std::pair("a", "y")}) {
            onnx::NodeProto& node = add_node(nodes, "F" + std::to_string(i - 1), {from}, {to});
            node.set_domain("f");
            node.set_name(name);
        }
    }
    call(model, "F" + std::to_string(kDeep), 1);
    const std::string message = refusal(model);
    EXPECT_THAT(message, HasSubstr("to read the model up to here"));
    EXPECT_LT(message.size(), 1000u) << "names are shortened in messages";
}

// --- names -------------------------------------------------------------------------------------

/// An If without a known condition whose branches both add a constant called "c".
void add_if(onnx::GraphProto& graph, const std::string& result) {
    onnx::NodeProto& node = add_node(graph, "If", {"condition"}, {result});
    for (const char* branch : {"then_branch", "else_branch"}) {
        onnx::GraphProto& body = set_graph(node, branch);
        body.set_name("body");
        add_integers(body, "c", {1}, {1});
        add_node(body, "Add", {"x", "c"}, {"y"});
        add_output(body, "y");
    }
    add_output(graph, result);
}

TEST(EqualNames, InManyBodiesBecomeDistinctOnes) {
    onnx::ModelProto model = empty_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2}, onnx::TensorProto::INT64);
    add_input(graph, "condition", {}, onnx::TensorProto::BOOL);
    constexpr std::size_t kIfs = 50;
    for (std::size_t i = 0; i < kIfs; ++i) add_if(graph, "r" + std::to_string(i));
    const OnnxModel imported = import_bytes(model);
    std::set<std::string> names;
    for (const graph::Op& op : imported.graph.ops()) {
        for (const graph::Body& body : op.bodies) {
            for (const graph::Op& inner : body.graph->ops()) {
                if (inner.kind == graph::OpKind::constant) names.insert(inner.name);
            }
        }
    }
    EXPECT_EQ(names.size(), 2 * kIfs);
    EXPECT_EQ(names.count("c"), 1u);
    EXPECT_EQ(names.count("c_100"), 1u);
}

TEST(Attributes, AreReadInAnyOrder) {
    onnx::ModelProto model = empty_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2});
    onnx::NodeProto& node = add_node(graph, "Relu", {"x"}, {"y"});
    for (int i = 999; i >= 100; --i) set_int(node, "__" + std::to_string(i), i);
    add_output(graph, "y");
    const OnnxModel imported = import_bytes(model);
    const graph::Attributes& attributes =
        imported.graph.op(*imported.graph.find_op("Relu_0")).attributes;
    EXPECT_EQ(attributes.entries().size(), 900u);
    EXPECT_EQ(attributes.get_int("__500", 0), 500);
}

// --- bodies ------------------------------------------------------------------------------------

TEST(BodyErrors, NameTheFileTheNodeAndItsBody) {
    onnx::ModelProto model = empty_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2, 3, 4});
    add_input(graph, "scale", {3});
    add_input(graph, "condition", {}, onnx::TensorProto::BOOL);
    onnx::NodeProto& node = add_node(graph, "If", {"condition"}, {"z"});
    node.set_name("choose");
    for (const char* branch : {"then_branch", "else_branch"}) {
        onnx::GraphProto& body = set_graph(node, branch);
        body.set_name("body");
        onnx::NodeProto& inner =
            add_node(body, "GroupNormalization", {"x", "scale", "scale"}, {"y"});
        inner.set_name("bad");
        set_int(inner, "num_groups", 7);
        add_output(body, "y");
    }
    add_output(graph, "z");
    const OnnxModel imported = import_bytes(model);
    try {
        (void)graph::rules_of(imported.graph);
        FAIL() << "7 groups of 3 channels were accepted";
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(),
                    StartsWith("hostile.onnx: node 'choose' (If), attribute 'then_branch': node "
                               "'bad' (GroupNormalization), attribute 'num_groups': "));
    }
}

}  // namespace
}  // namespace partita::importers
