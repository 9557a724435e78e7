// SPDX-License-Identifier: Apache-2.0
//
// Parts are the model's nodes, each once, in files that find what they read: values keep their names,
// so the files one after the other compute what the model computes.
#include "api/onnx_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace partita::api {
namespace {

constexpr int kDevices = 3;

onnx::ModelProto read(const std::filesystem::path& file) {
    onnx::ModelProto model;
    std::ifstream stream(file, std::ios::binary);
    EXPECT_TRUE(model.ParseFromIstream(&stream)) << file;
    return model;
}

template <class Values>
std::set<std::string> names(const Values& values) {
    std::set<std::string> names;
    for (const auto& value : values) names.insert(value.name());
    return names;
}

/// A model on three GPUs, every op on any of them.
class Cut {
public:
    Cut(const std::filesystem::path& file, std::uint64_t seed, std::optional<int> batch)
        : file_(file),
          model_(importers::import_onnx(file, {.batch = batch})),
          machine_(plan::switched_machine(kDevices)),
          problem_(plan::make_problem(model_.graph, machine_, {})) {
        search::Random random(seed);
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            devices_.push_back(support::draw(random, kDevices));
        }
        parts_ = write_onnx_parts(file, folder_, problem_, plan::whole_ops(devices_, {}));
    }

    /// All that the parts are meant to be.
    void expect_the_model() {
        EXPECT_TRUE(std::filesystem::exists(folder_ / "parts.json"));
        const onnx::ModelProto whole = read(file_);
        std::set<std::string> there = names(whole.graph().input());
        for (const OnnxPart& part : parts_) {
            for (const std::string& input : part.inputs)
                EXPECT_TRUE(there.contains(input)) << input;
            expect_a_file(part);
            there.insert(part.outputs.begin(), part.outputs.end());
        }
        for (const std::string& output : names(whole.graph().output())) {
            EXPECT_TRUE(there.contains(output)) << output;
        }
        for (const onnx::NodeProto& node : whole.graph().node()) {
            const std::vector<onnx::NodeProto>& own = nodes_[node.output(0)];
            EXPECT_TRUE(is_constant(node, whole) || own.size() == 1) << node.DebugString();
            for (const onnx::NodeProto& copy : own) {
                EXPECT_EQ(copy.SerializeAsString(), node.SerializeAsString());
            }
        }
    }
    [[nodiscard]] const std::vector<OnnxPart>& parts() const { return parts_; }

private:
    void expect_a_file(const OnnxPart& part) {
        const onnx::GraphProto graph = read(folder_ / part.file).graph();
        EXPECT_EQ(names(graph.input()), std::set(part.inputs.begin(), part.inputs.end()));
        EXPECT_EQ(names(graph.output()), std::set(part.outputs.begin(), part.outputs.end()));
        for (const onnx::ValueInfoProto& input : graph.input()) EXPECT_TRUE(input.has_type());
        std::set<std::string> here = names(graph.input());
        here.merge(names(graph.initializer()));
        for (const onnx::NodeProto& node : graph.node()) {
            for (const std::string& input : node.input()) {
                EXPECT_TRUE(input.empty() || here.contains(input)) << input;
            }
            here.insert(node.output().begin(), node.output().end());
            nodes_[node.output(0)].push_back(node);
            for (std::size_t op = 0; op < devices_.size(); ++op) {
                const graph::Op& planned = problem_.graph().ops()[op];
                const bool is_it =
                    planned.kind == graph::OpKind::compute &&
                    problem_.graph().tensor(planned.outputs[0]).name == node.output(0);
                EXPECT_TRUE(!is_it || part.device == devices_[op]) << planned.name;
            }
        }
        for (const std::string& output : part.outputs) EXPECT_TRUE(here.contains(output)) << output;
    }

    /// Computed from weights alone: everybody may compute it.
    bool is_constant(const onnx::NodeProto& node, const onnx::ModelProto& whole) {
        const std::set<std::string> weights = names(whole.graph().initializer());
        const bool constant = std::ranges::all_of(node.input(), [&](const std::string& input) {
            return input.empty() || weights.contains(input) || constants_.contains(input);
        });
        if (constant) constants_.insert(node.output().begin(), node.output().end());
        return constant;
    }

    std::filesystem::path file_;
    TemporaryFolder temporary_;
    std::filesystem::path folder_ = temporary_.path() / "parts";
    importers::OnnxModel model_;
    cost::Machine machine_;
    plan::Problem problem_;
    std::vector<int> devices_;
    std::vector<OnnxPart> parts_;
    std::map<std::string, std::vector<onnx::NodeProto>> nodes_;  ///< by their first result
    std::set<std::string> constants_;
};

class OnnxParts : public testing::TestWithParam<const char*> {};

TEST_P(OnnxParts, AreTheModelsNodesEachOnceWithWhatTheyRead) {
    std::size_t most = 0;
    for (const std::uint64_t seed : support::seeds(5)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Cut cut(tests::repository() / "examples" / GetParam(), seed, 4);
        cut.expect_the_model();
        most = std::max(most, cut.parts().size());
    }
    EXPECT_GT(most, std::size_t{kDevices});
}

INSTANTIATE_TEST_SUITE_P(Of, OnnxParts,
                         testing::Values("runnable/mlp/model.onnx", "runnable/convnet/model.onnx",
                                         "runnable/dlrm-tiny/model.onnx", "models/resnet50.onnx"));

// What a branch takes from outside is an input of its part.
TEST(OnnxPartsOfBranches, GetWhatBodiesRead) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name("branches");
    const auto declare = [](onnx::ValueInfoProto& value, const char* name, int type, int extent) {
        value.set_name(name);
        value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
        auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
        if (extent > 0) shape.add_dim()->set_dim_value(extent);
    };
    declare(*graph.add_input(), "x", onnx::TensorProto::FLOAT, 8);
    declare(*graph.add_input(), "condition", onnx::TensorProto::BOOL, 0);
    declare(*graph.add_output(), "y", onnx::TensorProto::FLOAT, 8);
    const auto node = [](onnx::GraphProto& of, const char* type, const char* in, const char* out) {
        onnx::NodeProto& added = *of.add_node();
        added.set_op_type(type);
        added.set_name(out);
        added.add_input(in);
        added.add_output(out);
        return &added;
    };
    node(graph, "Relu", "x", "a");
    onnx::NodeProto& branch = *node(graph, "If", "condition", "y");
    for (const auto& [name, type] : {std::pair{"then_branch", "Neg"}, {"else_branch", "Exp"}}) {
        onnx::AttributeProto& body = *branch.add_attribute();
        body.set_name(name);
        body.set_type(onnx::AttributeProto::GRAPH);
        node(*body.mutable_g(), type, "a", "b");
        body.mutable_g()->set_name(name);
        declare(*body.mutable_g()->add_output(), "b", onnx::TensorProto::FLOAT, 8);
    }
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "branches.onnx";
    std::ofstream(file, std::ios::binary) << model.SerializeAsString();
    int apart = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        Cut cut(file, seed, std::nullopt);
        cut.expect_the_model();
        if (cut.parts().size() < 2) continue;
        EXPECT_THAT(cut.parts().back().inputs, testing::UnorderedElementsAre("a", "condition"));
        ++apart;
    }
    EXPECT_GT(apart, 0);
}

// What is computed from weights alone is in every part that reads it, and in one where the model gives it.
TEST(OnnxPartsOfConstants, GiveWhatTheModelGives) {
    onnx::ModelProto model = read(tests::repository() / "examples/runnable/mlp/model.onnx");
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type("Neg");
    node.set_name("constant");
    node.add_input(graph.initializer(0).name());
    node.add_output("constant");
    *graph.add_output() = graph.output(0);
    graph.mutable_output(graph.output_size() - 1)->set_name("constant");
    graph.mutable_output(graph.output_size() - 1)->clear_type();
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "model.onnx";
    std::ofstream(file, std::ios::binary) << model.SerializeAsString();
    Cut cut(file, 1, 4);
    cut.expect_the_model();
}

TEST(OnnxPartsOfSplits, AreRefusedByTheOp) {
    const std::filesystem::path file = tests::repository() / "examples/runnable/mlp/model.onnx";
    const importers::OnnxModel model = importers::import_onnx(file, {.batch = 4});
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(model.graph, machine, {});
    plan::Strategy strategy = plan::whole_ops(std::vector<int>(model.graph.op_count(), 0), {});
    strategy.ops.back().config.devices = plan::DeviceSet::single(1);
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        if (model.graph.ops()[i].type != "Relu") continue;
        strategy.ops[i].config = {.axes = {plan::Axis::replicas(2)},
                                  .devices = plan::DeviceSet::progression(0, 2, 1)};
    }
    const TemporaryFolder folder;
    EXPECT_THAT(
        [&] {
            static_cast<void>(write_onnx_parts(file, folder.path() / "out", problem, strategy));
        },
        testing::ThrowsMessage<UsageError>(testing::HasSubstr("--dims O")));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
    std::ofstream(folder.path() / "there") << "something";
    EXPECT_THAT(
        [&] { static_cast<void>(write_onnx_parts(file, folder.path(), problem, strategy)); },
        testing::ThrowsMessage<UsageError>(testing::HasSubstr("something already")));
}

}  // namespace
}  // namespace partita::api
