// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/dtype.h"
#include "graph/operators/op_rule.h"
#include "importers/onnx/onnx_importer.h"
#include "tests/importers/hostile_models.h"

namespace partita::importers {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
/// As a 32-bit integer it is -1: what is cast first and checked then lets it through.
constexpr std::int64_t kMinusOneInDisguise = (std::int64_t{1} << 32) - 1;

/// One attribute of one node, whose operands are inputs of the model.
struct Attribute {
    std::string type;
    std::string name;
    std::vector<Ints> operands;
    Ints wrong;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Attribute& attribute, std::ostream* out) {
    *out << attribute.type << "." << attribute.name;
}

class AttributeRange : public testing::TestWithParam<Attribute> {};

TEST_P(AttributeRange, IsCheckedBeforeTheAttributeIsUsed) {
    const Attribute& attribute = GetParam();
    for (const std::int64_t value : attribute.wrong) {
        onnx::ModelProto model = empty_model(attribute.type == "RMSNormalization" ? 23 : 22);
        onnx::GraphProto& graph = *model.mutable_graph();
        Names names;
        for (const Ints& shape : attribute.operands) {
            names.push_back("x" + std::to_string(names.size()));
            const bool indices = attribute.type == "GatherND" && names.size() == 2;
            add_input(graph, names.back(), shape,
                      indices ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
        }
        const bool normalizes = attribute.type == "LayerNormalization";
        const Names results = normalizes ? Names{"y", "mean", "deviation"} : Names{"y"};
        onnx::NodeProto& node = add_node(graph, attribute.type, names, results);
        node.set_name("n");
        set_int(node, attribute.name, value);
        add_output(graph, "y");
        EXPECT_THAT(refusal(model),
                    StartsWith("hostile.onnx: node 'n' (" + attribute.type + "), attribute '" +
                               attribute.name + "': expected an integer "))
            << value;
    }
}

const Ints kWrongTypes = {0, -1, graph::kDTypeCount, std::int64_t{1} << 32, kLowest, kHighest};
const Ints kWrongAxes = {4, -5, kMinusOneInDisguise, kLowest, kHighest};

INSTANTIATE_TEST_SUITE_P(
    Onnx, AttributeRange,
    testing::Values(Attribute{"ArgMax", "axis", {{2, 3}}, kWrongAxes},
                    Attribute{"Cast", "to", {{2, 3}}, kWrongTypes},
                    Attribute{"Flatten", "axis", {{2, 3}}, kWrongAxes},
                    Attribute{
                        "GatherND", "batch_dims", {{2, 3}, {2, 1}}, {-1, -5, 2, kLowest, kHighest}},
                    Attribute{"HannWindow", "output_datatype", {{}}, kWrongTypes},
                    Attribute{"LRN", "size", {{1, 8, 2, 2}}, {0, kHighest}},
                    Attribute{"LayerNormalization", "axis", {{2, 3}, {3}}, kWrongAxes},
                    Attribute{"LayerNormalization", "stash_type", {{2, 3}, {3}}, kWrongTypes},
                    Attribute{"QuantizeLinear",
                              "output_dtype",
                              {{2, 3}, {}},
                              {-1, graph::kDTypeCount, std::int64_t{1} << 32, kLowest}},
                    Attribute{"RMSNormalization", "axis", {{2, 3}, {3}}, kWrongAxes},
                    Attribute{"RandomUniformLike", "dtype", {{2, 3}}, kWrongTypes},
                    Attribute{"ReverseSequence", "time_axis", {{2, 3}, {2}}, kWrongAxes},
                    Attribute{"Softmax", "axis", {{2, 3}}, kWrongAxes},
                    Attribute{"SpaceToDepth", "blocksize", {{1, 1, 4, 4}}, {0, kHighest}}));

TEST(AttributeRange, OfWindowsLeavesRoomForTheirProducts) {
    for (const char* name : {"kernel_shape", "strides", "dilations", "pads"}) {
        onnx::ModelProto model = empty_model();
        onnx::GraphProto& graph = *model.mutable_graph();
        add_input(graph, "x", {1, 1, 8, 8});
        onnx::NodeProto& node = add_node(graph, "MaxPool", {"x"}, {"y"});
        const bool per_side = std::string(name) == "pads";
        set_ints(node, name, Ints(per_side ? 4 : 2, std::int64_t{1} << 40));
        if (std::string(name) != "kernel_shape") set_ints(node, "kernel_shape", {3, 3});
        add_output(graph, "y");
        EXPECT_THAT(refusal(model), HasSubstr("attribute '" + std::string(name) + "': expected"));
    }
}

TEST(OperandRanks, OfDeformConvAreThoseOfItsData) {
    for (const std::size_t wrong : {2u, 4u}) {
        for (const Ints& shape : {Ints{1}, Ints{1, 8}, Ints{1, 8, 2, 2, 1}, Ints(8, 1)}) {
            onnx::ModelProto model = empty_model();
            onnx::GraphProto& graph = *model.mutable_graph();
            const Names names = {"x", "w", "offset", "bias", "mask"};
            std::vector<Ints> shapes = {
                {1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}, {1}, {1, 4, 2, 2}};
            shapes[wrong] = shape;
            for (std::size_t i = 0; i < names.size(); ++i) add_input(graph, names[i], shapes[i]);
            set_ints(add_node(graph, "DeformConv", names, {"y"}), "kernel_shape", {2, 2});
            add_output(graph, "y");
            const auto look = [&] { (void)graph::rules_of(import_bytes(model).graph); };
            EXPECT_THROW(look(), InputError) << wrong << " of rank " << shape.size();
        }
    }
}

TEST(OperandRanks, OfAPoolsLeftOutResultAreNotRead) {
    onnx::ModelProto model = empty_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "x", {1, 1, 8, 8});
    set_ints(add_node(graph, "MaxPool", {"x"}, {"", "indices"}), "kernel_shape", {2, 2});
    add_output(graph, "indices");
    const auto look = [&] { (void)graph::rules_of(import_bytes(model).graph); };
    EXPECT_THROW(look(), InputError);
}

TEST(Functions, AnOperandThatTheirCallerLeavesOutIsMissedByTheirNodes) {
    onnx::ModelProto model = empty_model();
    add_node(*add_function(model, "F").mutable_node(), "Gather", {"x", "x"}, {"y"});
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "z", {2});
    add_node(graph, "F", {""}, {"w"}).set_domain("f");
    add_output(graph, "w");
    EXPECT_THAT(refusal(model), HasSubstr("(Gather), operand 0: expected a tensor, got none"));
}

}  // namespace
}  // namespace partita::importers
