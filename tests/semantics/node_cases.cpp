// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"
#include "tests/semantics/case.h"
#include "tests/support/paths.h"

namespace partita::tests {

namespace {

namespace fs = std::filesystem;

/// Operands that are constants in every model that can be planned, from number `first` on.
struct ConstantOperands {
    std::string_view type;
    int first;
};
constexpr std::array kConstantOperands = {
    ConstantOperands{"AffineGrid", 1},   ConstantOperands{"CenterCropPad", 1},
    ConstantOperands{"Col2Im", 1},       ConstantOperands{"ConstantOfShape", 0},
    ConstantOperands{"CumProd", 1},      ConstantOperands{"CumSum", 1},
    ConstantOperands{"DFT", 1},          ConstantOperands{"Dropout", 1},
    ConstantOperands{"Expand", 1},       ConstantOperands{"Pad", 1},
    ConstantOperands{"ReduceL1", 1},     ConstantOperands{"ReduceL2", 1},
    ConstantOperands{"ReduceLogSum", 1}, ConstantOperands{"ReduceLogSumExp", 1},
    ConstantOperands{"ReduceMax", 1},    ConstantOperands{"ReduceMean", 1},
    ConstantOperands{"ReduceMin", 1},    ConstantOperands{"ReduceProd", 1},
    ConstantOperands{"ReduceSum", 1},    ConstantOperands{"ReduceSumSquare", 1},
    ConstantOperands{"Reshape", 1},      ConstantOperands{"Resize", 1},
    ConstantOperands{"STFT", 1},         ConstantOperands{"Slice", 1},
    ConstantOperands{"Split", 1},        ConstantOperands{"Squeeze", 1},
    ConstantOperands{"Tile", 1},         ConstantOperands{"TopK", 1},
    ConstantOperands{"Trilu", 1},        ConstantOperands{"Unsqueeze", 1},
    ConstantOperands{"Upsample", 1},
};

/// The evaluator visits elements one by one: three cases of 3-d pooling would take longer than all
/// others together. cases.txt has smaller ones.
constexpr std::int64_t kMostElements = 20'000;

bool is_large(const graph::OpGraph& graph) {
    return std::any_of(graph.tensors().begin(), graph.tensors().end(),
                       [](const graph::Tensor& t) { return t.elements() > kMostElements; });
}

template <class Message>
bool read(const fs::path& path, Message& message) {
    std::ifstream stream(path, std::ios::binary);
    return stream && message.ParseFromIstream(&stream);
}

/// An input of the model becomes an initializer with the value of the data set.
void fix_input(onnx::ModelProto& model, const std::string& name, const fs::path& file) {
    onnx::TensorProto value;
    if (!read(file, value)) return;
    auto& inputs = *model.mutable_graph()->mutable_input();
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const auto& input) { return input.name() == name; });
    if (it == inputs.end()) return;
    inputs.erase(it);
    value.set_name(name);
    *model.mutable_graph()->add_initializer() = std::move(value);
}

/// Per operand of the model's node the file of its value; "" for what is no input of the model.
std::vector<std::string> files_of(const onnx::ModelProto& model, const fs::path& data) {
    std::vector<std::string> files;
    const auto& inputs = model.graph().input();
    for (const std::string& operand : model.graph().node(0).input()) {
        const auto it = std::find_if(inputs.begin(), inputs.end(),
                                     [&](const auto& input) { return input.name() == operand; });
        files.push_back(it == inputs.end()
                            ? ""
                            : (data / fmt::format("input_{}.pb", it - inputs.begin())).string());
    }
    return files;
}

void fix_constants(onnx::ModelProto& model, const std::vector<std::string>& files) {
    const onnx::NodeProto node = model.graph().node(0);
    const auto* const row =
        std::find_if(kConstantOperands.begin(), kConstantOperands.end(),
                     [&](const ConstantOperands& each) { return each.type == node.op_type(); });
    if (row == kConstantOperands.end()) return;
    for (int i = row->first; i < node.input_size(); ++i) {
        fix_input(model, node.input(i), files[static_cast<std::size_t>(i)]);
    }
}

/// The only op that computes; nothing when it was folded, or inlined into several.
std::optional<graph::OpId> only_compute_op(const graph::OpGraph& graph) {
    std::optional<graph::OpId> found;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (graph.op(graph::OpId(i)).kind != graph::OpKind::compute) continue;
        if (found) return std::nullopt;
        found = graph::OpId(i);
    }
    return found;
}

std::optional<Case> read_case(const fs::path& folder) {
    std::ifstream described(folder / "case.json");
    if (!described || !nlohmann::json::parse(described)["tensors_only"].get<bool>()) return {};
    onnx::ModelProto model;
    if (!read(folder / "model.onnx", model) || model.graph().node_size() != 1) return {};
    Case test;
    test.name = folder.filename();
    test.files = files_of(model, folder / "test_data_set_0");
    fix_constants(model, test.files);
    try {
        const std::string bytes = model.SerializeAsString();
        test.graph = importers::import_onnx(std::as_bytes(std::span(bytes)), {}, test.name).graph;
    } catch (const InputError&) {
        return {};  // its shapes depend on contents
    }
    const auto op = only_compute_op(test.graph);
    if (!op || is_large(test.graph)) return {};
    test.op = *op;
    if (test.graph.op(test.op).inputs.size() > test.files.size()) return {};
    test.files.resize(test.graph.op(test.op).inputs.size());
    return test;
}

}  // namespace

std::vector<Case> node_cases() {
    std::vector<fs::path> folders;
    const fs::path root = tests::node_tests();
    if (!fs::is_directory(root)) return {};
    for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    std::vector<Case> cases;
    for (const fs::path& folder : folders) {
        if (auto test = read_case(folder)) cases.push_back(*std::move(test));
    }
    return cases;
}

}  // namespace partita::tests
