// SPDX-License-Identifier: Apache-2.0
//
// Small models that no exporter writes, through inspect, plan and execute as a stranger would give
// them: each command ends with a result or with the right exit code and the name of what is wrong,
// within 1 GiB.
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/importers/hostile_models.h"

namespace partita::tests {
namespace {

using importers::add_input;
using importers::add_integers;
using importers::add_node;
using importers::add_output;
using importers::empty_model;
using importers::Ints;
using importers::Names;
using importers::set_int;
using importers::set_ints;
using testing::HasSubstr;

constexpr std::int64_t kGiant = std::int64_t{1} << 40;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct HostileFile {
    std::string name;
    std::function<void(onnx::ModelProto&)> build;
    int plan_code = 0;    ///< of inspect too
    std::string refusal;  ///< a part of what plan says on stderr
    int execute_code = 0;
    std::string failure;  ///< a part of what execute says
    int opset = 22;

    friend std::ostream& operator<<(std::ostream& stream, const HostileFile& file) {
        return stream << file.name;
    }
};

/// A node 'n' from the model's inputs to its output 'y'.
onnx::NodeProto& only_node(onnx::ModelProto& model, const std::string& type,
                           const Names& operands) {
    onnx::NodeProto& node = add_node(*model.mutable_graph(), type, operands, {"y"});
    node.set_name("n");
    add_output(*model.mutable_graph(), "y");
    return node;
}

void pooling(onnx::ModelProto& model, const std::string& attribute, const Ints& values) {
    add_input(*model.mutable_graph(), "x", {1, 1, 8, 8});
    onnx::NodeProto& node = only_node(model, "MaxPool", {"x"});
    if (attribute != "kernel_shape") set_ints(node, "kernel_shape", {2, 2});
    set_ints(node, attribute, values);
}

void wide_kernel(onnx::ModelProto& model) {
    pooling(model, "kernel_shape", {kGiant, kGiant});
    set_ints(*model.mutable_graph()->mutable_node(0), "pads", {kGiant, kGiant, kGiant, kGiant});
}

void wide_strides(onnx::ModelProto& model) {
    pooling(model, "strides", {kMost, kMost});
}

void dilated(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1, 1, 8, 8});
    add_input(graph, "w", {1, 1, 3, 3});
    onnx::NodeProto& node = only_node(model, "Conv", {"x", "w"});
    set_ints(node, "dilations", {kMost, kMost});
    set_ints(node, "pads", {kGiant, kGiant, kGiant, kGiant});
}

void long_steps(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {8});
    add_integers(graph, "starts", {1}, {0});
    add_integers(graph, "ends", {1}, {kMost});
    add_integers(graph, "axes", {1}, {0});
    add_integers(graph, "steps", {1}, {kMost});
    only_node(model, "Slice", {"x", "starts", "ends", "axes", "steps"});
}

void repeats(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {8, 8});
    add_integers(graph, "repeats", {2}, {kGiant, kGiant});
    only_node(model, "Tile", {"x", "repeats"});
}

/// Constants of 64 MB, each of which folding would compute from the last.
void towers(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1});
    add_integers(graph, "shape", {2}, {4000, 4000});
    add_node(graph, "ConstantOfShape", {"shape"}, {"c0"});
    constexpr int kFloors = 60;
    for (int i = 0; i < kFloors; ++i) {
        const std::string from = "c" + std::to_string(i);
        add_node(graph, "Pow", {from, from}, {"c" + std::to_string(i + 1)});
    }
    add_node(graph, "ReduceSum", {"c" + std::to_string(kFloors)}, {"sum"});
    only_node(model, "Add", {"x", "sum"});
}

void giant_rank(onnx::ModelProto& model) {
    add_input(*model.mutable_graph(), "x", Ints(20'000, 1));
    only_node(model, "Relu", {"x"});
}

void many_attributes(onnx::ModelProto& model) {
    add_input(*model.mutable_graph(), "x", {8});
    onnx::NodeProto& node = only_node(model, "Relu", {"x"});
    constexpr int kCount = 200'000;
    for (int i = 0; i < kCount; ++i) set_int(node, "a" + std::to_string(i), i);
}

void many_constants(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {8});
    constexpr int kCount = 30'000;
    for (int i = 0; i < kCount; ++i) {
        onnx::NodeProto& node = add_node(graph, "Constant", {}, {"c" + std::to_string(i)});
        set_ints(node, "value_ints", {i});
    }
    only_node(model, "Relu", {"x"});
}

void many_pieces(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    constexpr int kCount = 20'000;
    add_input(graph, "x", {kCount});
    onnx::NodeProto& node = add_node(graph, "Split", {"x"}, {});
    node.set_name("n");
    set_int(node, "num_outputs", kCount);
    for (int i = 0; i < kCount; ++i) node.add_output("p" + std::to_string(i));
    add_output(graph, "p0");
}

void long_chain(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "c0", {8});
    constexpr int kCount = 20'000;
    for (int i = 0; i < kCount; ++i) {
        add_node(graph, "Identity", {"c" + std::to_string(i)}, {"c" + std::to_string(i + 1)});
    }
    only_node(model, "Relu", {"c" + std::to_string(kCount)});
}

void normalized_nowhere(onnx::ModelProto& model) {
    add_input(*model.mutable_graph(), "x", {2, 8});
    add_input(*model.mutable_graph(), "scale", {8});
    set_int(only_node(model, "LayerNormalization", {"x", "scale"}), "axis", 7);
}

void gathered_batches(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {2, 8});
    add_input(graph, "at", {2, 1}, onnx::TensorProto::INT64);
    set_int(only_node(model, "GatherND", {"x", "at"}), "batch_dims", 5);
}

void deformed(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1, 1, 8, 8});
    add_input(graph, "w", {1, 1, 2, 2});
    add_input(graph, "offset", {8});
    only_node(model, "DeformConv", {"x", "w", "offset"});
}

void suppressed(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "boxes", {1, 1'000'000, 1});
    add_input(graph, "scores", {1, 1, 1'000'000});
    add_integers(graph, "most", {1}, {3});
    onnx::NodeProto& node =
        add_node(graph, "NonMaxSuppression", {"boxes", "scores", "most"}, {"y"});
    node.set_name("n");
    importers::set_type(*graph.add_output(), "y", {3, 3}, onnx::TensorProto::INT64);
}

void aligned(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1, 1, 8, 8});
    add_input(graph, "rois", {3, 1});
    add_input(graph, "at", {3}, onnx::TensorProto::INT64);
    only_node(model, "RoiAlign", {"x", "rois", "at"});
}

void best_of_none(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {8});
    add_input(graph, "k", {0}, onnx::TensorProto::INT64);
    onnx::NodeProto& node = add_node(graph, "TopK", {"x", "k"}, {"y", "at"});
    node.set_name("n");
    importers::set_type(*graph.add_output(), "y", {3}, onnx::TensorProto::FLOAT);
}

void endless(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {8});
    onnx::NodeProto& node = add_node(graph, "Loop", {"", "", "x"}, {"y"});
    node.set_name("n");
    importers::set_type(*graph.add_output(), "y", {8}, onnx::TensorProto::FLOAT);
    onnx::GraphProto& body = importers::set_graph(node, "body");
    body.set_name("b");
    add_input(body, "i", {}, onnx::TensorProto::INT64);
    add_input(body, "goes_on", {}, onnx::TensorProto::BOOL);
    add_input(body, "state", {8});
    add_node(body, "Identity", {"goes_on"}, {"goes_on_too"});
    add_node(body, "Relu", {"state"}, {"next"});
    importers::set_type(*body.add_output(), "goes_on_too", {}, onnx::TensorProto::BOOL);
    importers::set_type(*body.add_output(), "next", {8}, onnx::TensorProto::FLOAT);
}

/// Up to a number that is made up, and more than the model says.
void other_length(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "end", {}, onnx::TensorProto::INT64);
    add_integers(graph, "begin", {}, {-1'000'000});
    add_integers(graph, "step", {}, {1});
    add_node(graph, "Range", {"begin", "end", "step"}, {"y"}).set_name("n");
    importers::set_type(*graph.add_output(), "y", {1000}, onnx::TensorProto::INT64);
}

/// None, where inference knows only that there are no more than three: what decides is marked.
void no_positions(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {3});
    add_node(graph, "Sub", {"x", "x"}, {"zeros"});
    only_node(model, "NonZero", {"zeros"});
}

std::vector<HostileFile> hostile_files() {
    return {
        {"wide_kernel", wide_kernel, 3, "node 'n' (MaxPool), attribute 'kernel_shape'"},
        {"wide_strides", wide_strides, 3, "node 'n' (MaxPool), attribute 'strides'"},
        {"dilated", dilated, 3, "node 'n' (Conv), attribute 'dilations'"},
        {"long_steps", long_steps},
        {"repeats", repeats, 3, "tensor 'y': shape"},
        {"towers", towers},
        {"giant_rank", giant_rank, 3, "input 'x': expected 'x' to have at most 64 dims"},
        {"many_attributes", many_attributes, 3, "node 'n' (Relu), attribute 'a0'"},
        {"many_constants", many_constants},
        {"many_pieces", many_pieces},
        {"long_chain", long_chain},
        {"normalized_nowhere", normalized_nowhere, 3,
         "node 'n' (LayerNormalization), attribute 'axis'"},
        {"gathered_batches", gathered_batches, 3, "node 'n' (GatherND), attribute 'batch_dims'"},
        {"deformed", deformed, 3, "node 'n' (DeformConv), operand 2"},
        {"suppressed", suppressed, 0, "", 3, "operand 0: expected extents [b n 4]"},
        {"aligned", aligned, 0, "", 3, "operand 1: expected extents [r 4]", 10},
        {"best_of_none", best_of_none, 0, "", 3, "operand 1: expected one element, got [0]"},
        {"no_positions", no_positions},
        {"other_length", other_length, 0, "", 3,
         "result 0: expected extents [1000], as declared, got ["},
        {"endless", endless, 0, "", 5, "took longer than a task may"},
    };
}

class HostileModels : public ProgramTest, public testing::WithParamInterface<HostileFile> {};

TEST_P(HostileModels, EndAsBadInputOrAsAPlanThatRuns) {
    const HostileFile& file = GetParam();
    onnx::ModelProto model = empty_model(file.opset);
    file.build(model);
    const std::string bytes = model.SerializeAsString();
    write("model.onnx", bytes);

    const auto expect = [](const Outcome& result, int code, const std::string& message) {
        EXPECT_EQ(result.code, code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(message));
        constexpr std::int64_t kMostMemory = std::int64_t{1} << 30;
        EXPECT_LE(result.memory, kMostMemory);
    };
    expect(run({"inspect", "model.onnx"}), file.plan_code, file.refusal);
    expect(run({"plan", "model.onnx", "--machine", "cpu:2", "--searcher", "data-parallel", "-o",
                "plan.json"}),
           file.plan_code, file.refusal);
    if (file.plan_code != 0) return;
    expect(run({"execute", "plan.json", "model.onnx", "--timeout", "2", "--warmup", "0",
                "--iterations", "1"}),
           file.execute_code, file.failure);
}

INSTANTIATE_TEST_SUITE_P(Of, HostileModels, testing::ValuesIn(hostile_files()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace partita::tests
