// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a graph is said in one sentence that names graph, op and remedy.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <partita/partita.h>

namespace partita {
namespace {

/// What of an InputError while a graph "net" with input x of [4 8] is built and read.
std::string complaint(const std::function<void(Graph&, const Tensor& x)>& build) {
    try {
        Graph graph("net");
        const Tensor x = graph.input("x", {4, 8});
        build(graph, x);
        static_cast<void>(Model(graph));
    } catch (const InputError& error) {
        return error.what();
    }
    return "nothing";
}

TEST(GraphErrors, AnUnknownOperatorIsNamedAndTheRightOneSuggested) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("relu", {x}, {}, {.name = "act"}));
              }),
              "net: op 'act' (relu): ONNX's operator set 23 has no such operator. Is it 'Relu'? "
              "Correct the type, or give its results shapes (OpOptions::results) to plan it as an "
              "unknown operator, or its rule (partita_rule).");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("Fancy", {x}, {}, {.domain = "mine"}));
              }),
              "net: op 'Fancy_0' (Fancy): the domain 'mine' has no such operator. Correct the "
              "type, or give its results shapes (OpOptions::results) to plan it as an unknown "
              "operator, or its rule (partita_rule).");
}

TEST(GraphErrors, ShapesThatDoNotFitAreShown) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  const auto w = graph.parameter("w", {9, 2});
                  graph.output(graph.add("MatMul", {x, w}, {}, {.name = "fc"}));
              }),
              "net: node 'fc' (MatMul): Incompatible dimensions for matrix multiplication "
              "(operands [4, 8], [9, 2]). Correct the model or export it again.");
}

TEST(GraphErrors, ACycleIsFound) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.add("Add", {x, "b"}, {}, {.name = "first", .results = {"a"}});
                  graph.add("Relu", {"a"}, {}, {.name = "second", .results = {"b"}});
                  graph.output("b");
              }),
              "net: node 'first' (Add): it waits for its own result: the graph has a cycle. "
              "Correct the model or export it again.");
}

TEST(GraphErrors, AnOperandThatNothingMakesIsNamed) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("Add", {x, "bias"}, {}, {.name = "sum"}));
              }),
              "net: node 'sum' (Add), operand 1 'bias': no node, input or initializer makes "
              "it. Correct the model or export it again.");
}

TEST(GraphErrors, AnOutputMustBeMade) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor&) { graph.output("logits"); }),
              "net: output 'logits': no node makes it, and it is no input. Correct the "
              "model or export it again.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) { graph.add("Relu", {x}); }),
              "net: has no output. Name what it computes with output().");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(x);
                  graph.output(x);
              }),
              "net: output 'x': it is an output already. Name it once.");
}

TEST(GraphErrors, AttributesAreCheckedAgainstTheOperator) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("LeakyRelu", {x}, {{"alpha", 1}}));
              }),
              "net: node 'LeakyRelu_0' (LeakyRelu), attribute 'alpha': expected a number, "
              "got an integer. Correct the model or export it again.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("Softmax", {x}, {{"axes", 1}}));
              }),
              "net: node 'Softmax_0' (Softmax), attribute 'axes': the operator has none of "
              "this name. Correct the model or export it again.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.output(graph.add("Softmax", {x}, {{"axis", 7}}));
              }),
              "net: node 'Softmax_0' (Softmax), attribute 'axis': expected an integer in "
              "[-2, 1], got 7. Correct the model or export it again.");
}

TEST(GraphErrors, NamesAreGivenOnce) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor&) { graph.parameter("x", {2}); }),
              "net: parameter 'x': another tensor is called 'x'. Rename one.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.add("Relu", {x}, {}, {.results = {"x"}});
              }),
              "net: op 'Relu_0' (Relu): another tensor is called 'x'. Rename one.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.add("Relu", {x}, {}, {.name = "act"});
                  graph.add("Tanh", {x}, {}, {.name = "act"});
              }),
              "net: op 'act' (Tanh): another op has this name. Give it one of its own.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor&) { graph.input("", {2}); }),
              "net: input '': expected a name, got none. Give it one.");
}

TEST(GraphErrors, ShapesAndTypesAreConcrete) {
    EXPECT_EQ(complaint([](Graph& graph, const Tensor&) {
                  graph.input("y", {-1, 8});
              }),
              "net: input 'y': expected extents >= 0, got [-1, 8]. Give all of them a value.");
    EXPECT_EQ(
        complaint([](Graph& graph, const Tensor&) { graph.parameter("ids", {8}, DType::int64); }),
        "net: parameter 'ids': expected floating-point elements, which training can update, "
        "got int64. Use constant().");
    EXPECT_EQ(
        complaint([](Graph& graph, const Tensor&) { graph.constant("c", {8}, DType::undefined); }),
        "net: constant 'c': expected an element type, got undefined. Give it one.");
    EXPECT_EQ(
        complaint([](Graph& graph, const Tensor&) {
            graph.input("y", {4, 8}, {.batch_dim = 2});
        }),
        "net: input 'y': batch_dim: expected a dim from 0 to 1 or -1 for none, got 2. Correct "
        "it.");
    EXPECT_EQ(complaint([](Graph& graph, const Tensor& x) {
                  graph.add("Mine", {x}, {}, {.results = {{"y", {-3}}}});
              }),
              "net: op 'Mine_0' (Mine), result 'y': expected extents >= 0, got [-3]. Give all of "
              "them a value.");
}

TEST(GraphErrors, OperatorSetsAreThoseOfOnnx) {
    EXPECT_THROW(Graph("net", 0), InputError);
    EXPECT_THROW(Graph("net", 29), InputError);
}

TEST(GraphErrors, AFileThatCannotBeWrittenIsWrongUsage) {
    Graph graph;
    graph.output(graph.add("Relu", {graph.input("x", {4})}));
    EXPECT_THROW(graph.save_onnx("/no/such/folder/model.onnx"), UsageError);
}

TEST(ModelErrors, NamesThatAModelDoesNotHaveAreWrongUsage) {
    Graph graph("net");
    graph.output(graph.add("Relu", {graph.input("x", {4})}));
    const Model model(graph);
    EXPECT_THROW(static_cast<void>(model.tensor("y")), UsageError);
    EXPECT_THROW(static_cast<void>(model.factors("MatMul_0")), UsageError);
    EXPECT_THROW(static_cast<void>(Model::load("/no/such/model.onnx")), InputError);
}

}  // namespace
}  // namespace partita
