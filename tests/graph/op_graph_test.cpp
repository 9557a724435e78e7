// SPDX-License-Identifier: Apache-2.0
#include "graph/op_graph.h"

#include <functional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/sha256.h"

namespace partita::graph {
namespace {

//     x ──▶ MatMul ──▶ h ──▶ Add ──▶ y ──▶ Output
//     w ──▲            └──────▲
OpGraph two_op_graph() {
    OpGraph graph;
    graph.name = "two.onnx";
    const TensorId x = graph.add_source({.name = "x", .shape = {2, 3}, .role = TensorRole::input});
    const TensorId w =
        graph.add_source({.name = "w", .shape = {3, 4}, .role = TensorRole::parameter});
    const TensorId h = graph.add_tensor({.name = "h", .shape = {2, 4}});
    graph.add_op({.name = "product", .type = "MatMul", .inputs = {x, w}, .outputs = {h}});
    const TensorId y = graph.add_tensor({.name = "y", .shape = {2, 4}});
    graph.add_op({.name = "double", .type = "Add", .inputs = {h, h}, .outputs = {y}});
    graph.add_output("output y", y);
    return graph;
}

/// The message of check(), or "" when it finds nothing.
std::string complaint_about(const OpGraph& graph) {
    try {
        check(graph);
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

TEST(OpGraph, SourcesAndSinksAreOps) {
    const OpGraph graph = two_op_graph();
    ASSERT_EQ(graph.op_count(), 5u);
    EXPECT_EQ(graph.op(OpId(0u)).kind, OpKind::input);
    EXPECT_EQ(graph.op(OpId(1u)).kind, OpKind::parameter);
    EXPECT_EQ(graph.op(OpId(1u)).type, "Parameter");
    EXPECT_EQ(graph.op(OpId(4u)).kind, OpKind::output);
    EXPECT_EQ(graph.tensor(TensorId(1u)).producer, OpId(1u));
    EXPECT_EQ(complaint_about(graph), "");
}

TEST(OpGraph, NeighboursAreDistinctAndUsesAreNot) {
    const OpGraph graph = two_op_graph();
    const OpId add = *graph.find_op("double");
    EXPECT_EQ(graph.predecessors(add), (std::vector<OpId>{OpId(2u)}));
    EXPECT_EQ(graph.successors(OpId(2u)), (std::vector<OpId>{add}));
    const auto uses = graph.uses(TensorId(2u));
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_EQ(uses[1], (Use{add, 1}));
    EXPECT_EQ(graph.predecessors(OpId(2u)), (std::vector<OpId>{OpId(0u), OpId(1u)}));
    EXPECT_EQ(graph.find_op("nothing"), std::nullopt);
}

TEST(OpGraph, OrderRespectsEveryEdge) {
    const OpGraph graph = two_op_graph();
    std::set<OpId> done;
    for (const OpId id : graph.topological_order()) {
        for (const OpId before : graph.predecessors(id)) EXPECT_TRUE(done.contains(before));
        done.insert(id);
    }
    EXPECT_EQ(done.size(), graph.op_count());
}

TEST(CheckOpGraph, NamesTheOpThatHasNoName) {
    OpGraph graph = two_op_graph();
    graph.op(OpId(3u)).name = "";
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: op 3 (Add): expected a name, got none. Name every op.");
}

TEST(CheckOpGraph, NamesTheOpWithoutOperator) {
    OpGraph graph = two_op_graph();
    graph.op(OpId(3u)).type = "";
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: node 'double': expected an operator, got none. Correct the model or "
              "export it again.");
}

TEST(CheckOpGraph, NamesRepeatedNames) {
    OpGraph graph = two_op_graph();
    graph.op(OpId(3u)).name = "product";
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: node 'product': the name occurs more than once. Give each its own.");
    graph = two_op_graph();
    graph.tensor(TensorId(2u)).name = "x";
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 'x': the name occurs more than once. Give each its own.");
}

TEST(CheckOpGraph, NamesTheTensorThatHasNoName) {
    OpGraph graph = two_op_graph();
    graph.tensor(TensorId(2u)).name = "";
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 2: expected a name, got none. Name every tensor.");
}

TEST(CheckOpGraph, NamesNegativeExtents) {
    OpGraph graph = two_op_graph();
    graph.tensor(TensorId(2u)).shape = {2, -4};
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 'h', dim 1: expected an extent >= 0, got -4. Correct the model or "
              "its bindings.");
}

TEST(CheckOpGraph, NamesTensorsNobodyProduces) {
    OpGraph graph = two_op_graph();
    graph.add_tensor({.name = "stray"});
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 'stray': no op produces it. Correct the model or export it again.");
    graph = two_op_graph();
    graph.op(OpId(3u)).inputs[1] = TensorId(99u);
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: node 'double' (Add), operand 1: no op produces it. Correct the model or "
              "export it again.");
}

TEST(CheckOpGraph, NamesTensorsTooLargeToCount) {
    OpGraph graph = two_op_graph();
    graph.tensor(TensorId(2u)).shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 'h': shape [1099511627776 1099511627776] has more than 2^63 - 1 "
              "bytes. Correct the model or its bindings.");
}

TEST(CheckOpGraph, NamesNegativeGivenCosts) {
    OpGraph graph = two_op_graph();
    graph.op(OpId(3u)).given = GivenCosts{.cpu_time = Time(-5)};
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: node 'double' (Add), CPU time: expected a number >= 0, got -5. Correct "
              "the file.");
    graph = two_op_graph();
    graph.tensor(TensorId(2u)).given_bytes = Bytes(-1);
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: tensor 'h': expected a size >= 0 bytes, got -1. Correct the file.");
}

TEST(CheckOpGraph, LooksIntoBodies) {
    OpGraph body = two_op_graph();
    body.name = "two.onnx: body of 'loop'";
    body.op(OpId(3u)).name = "";
    OpGraph graph;
    const TensorId x = graph.add_source({.name = "x", .role = TensorRole::input});
    graph.add_op({.name = "loop",
                  .type = "Loop",
                  .inputs = {x},
                  .bodies = {{"body", std::make_shared<const OpGraph>(body)}}});
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: body of 'loop': op 3 (Add): expected a name, got none. Name every op.");
    graph = two_op_graph();
    graph.op(OpId(3u)).trip_count = -2;
    EXPECT_EQ(complaint_about(graph),
              "two.onnx: node 'double' (Add), trip count: expected a number >= 0, got -2. Correct "
              "the model.");
}

TEST(Sha256, PublishedDigests) {
    // FIPS 180-4 hashes bytes; ours puts lengths before texts, so compare numbers only.
    EXPECT_EQ(Sha256().finish(),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    // The eight bytes "abcdefgh".
    EXPECT_EQ(Sha256().add(std::int64_t{0x6867666564636261}).finish(),
              "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab");
}

TEST(Sha256, LengthsSeparateTexts) {
    EXPECT_NE(Sha256().add("ab").add("c").finish(), Sha256().add("a").add("bc").finish());
}

TEST(Digest, SameGraphSameDigest) {
    EXPECT_EQ(digest(two_op_graph()), digest(two_op_graph()));
    EXPECT_EQ(digest(two_op_graph()).size(), 64u);
    OpGraph renamed = two_op_graph();
    renamed.name = "another file";
    renamed.op(OpId(2u)).block = "layer";
    EXPECT_EQ(digest(renamed), digest(two_op_graph()));
}

TEST(Digest, EveryFieldCounts) {
    const std::vector<std::function<void(Op&)>> op_changes{
        [](Op& op) { op.name = "other"; },
        [](Op& op) { op.type = "Other"; },
        [](Op& op) { op.domain = "other"; },
        [](Op& op) { op.kind = OpKind::constant; },
        [](Op& op) { op.inputs.pop_back(); },
        [](Op& op) { std::swap(op.inputs[0], op.inputs[1]); },
        [](Op& op) { op.outputs.clear(); },
        [](Op& op) { op.attributes.set("axis", std::int64_t{1}); },
        [](Op& op) { op.attributes.set("axis", 1.0); },
        [](Op& op) { op.attributes.set("axis", std::string("1")); },
        [](Op& op) { op.attributes.set("axes", std::vector<std::int64_t>{1}); },
        [](Op& op) { op.attributes.set("axes", std::vector<double>{1}); },
        [](Op& op) { op.attributes.set("axes", std::vector<std::string>{"1"}); },
        [](Op& op) {
            op.bodies.push_back({"a", std::make_shared<const OpGraph>()});
        },
        [](Op& op) {
            op.bodies.push_back({"b", std::make_shared<const OpGraph>()});
        },
        [](Op& op) {
            op.bodies.push_back({"a", std::make_shared<const OpGraph>(two_op_graph())});
        },
        [](Op& op) { op.trip_count = 1; },
        [](Op& op) { op.opset = 13; },
        [](Op& op) { op.given = GivenCosts{}; },
        [](Op& op) { op.given = GivenCosts{.on_accelerator = false}; },
        [](Op& op) { op.given = GivenCosts{.accelerator_time = Time(1)}; },
        [](Op& op) { op.given = GivenCosts{.cpu_time = Time(1)}; },
        [](Op& op) { op.given = GivenCosts{.memory = Bytes(1)}; },
        [](Op& op) { op.given = GivenCosts{.communication_time = Time(1)}; },
        [](Op& op) { op.given = GivenCosts{.backward = true}; },
        [](Op& op) { op.given = GivenCosts{.color_class = 0}; },
        [](Op& op) { op.given = GivenCosts{.id = 1}; },
    };
    const std::vector<std::function<void(Tensor&)>> tensor_changes{
        [](Tensor& tensor) { tensor.name = "other"; },
        [](Tensor& tensor) {
            tensor.shape = {4, 2};
        },
        [](Tensor& tensor) {
            tensor.shape = {2, 4, 1};
        },
        [](Tensor& tensor) { tensor.dtype = DType::float16; },
        [](Tensor& tensor) { tensor.role = TensorRole::constant; },
        [](Tensor& tensor) { tensor.producer = OpId(0u); },
        [](Tensor& tensor) { tensor.upper_bound_dims = 1; },
        [](Tensor& tensor) { tensor.known_integers = std::vector<std::int64_t>{}; },
        [](Tensor& tensor) { tensor.known_integers = std::vector<std::int64_t>{1}; },
        [](Tensor& tensor) { tensor.given_bytes = Bytes(0); },
        [](Tensor& tensor) { tensor.given_bytes = Bytes(1); },
    };
    std::set<std::string> digests{digest(two_op_graph())};
    for (std::size_t i = 0; i < op_changes.size(); ++i) {
        OpGraph graph = two_op_graph();
        op_changes[i](graph.op(OpId(2u)));
        EXPECT_TRUE(digests.insert(digest(graph)).second) << "op change " << i;
    }
    for (std::size_t i = 0; i < tensor_changes.size(); ++i) {
        OpGraph graph = two_op_graph();
        tensor_changes[i](graph.tensor(TensorId(2u)));
        EXPECT_TRUE(digests.insert(digest(graph)).second) << "tensor change " << i;
    }
}

}  // namespace
}  // namespace partita::graph
