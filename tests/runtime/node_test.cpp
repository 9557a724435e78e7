// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/node_test.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"
#include "importers/onnx/tensor_file.h"
#include "importers/onnx/tensor_files.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"
#include "tests/support/paths.h"

namespace partita::runtime {

namespace fs = std::filesystem;
using graph::DType;
using graph::HostTensor;
using importers::OnnxModel;

namespace {

struct Tolerance {
    double relative = 0;
    double absolute = 0;
};

Tolerance tolerance_of(at::ScalarType type) {
    switch (type) {
    case at::kHalf: return {2e-3, 1e-4};
    case at::kBFloat16: return {1.6e-2, 1e-3};
    case at::kFloat:
    case at::kDouble:
    case at::kComplexFloat:
    case at::kComplexDouble: return {1e-3, 1e-7};
    default: return {};
    }
}

}  // namespace

bool are_close(const at::Tensor& found, const at::Tensor& expected) {
    const Tolerance tolerance = tolerance_of(found.scalar_type());
    if (at::isIntegralType(found.scalar_type(), /*includeBool=*/true)) {
        return at::equal(found.to(at::kLong), expected.to(at::kLong));
    }
    const auto wide = at::isComplexType(found.scalar_type()) ? at::kComplexDouble : at::kDouble;
    return at::allclose(found.to(wide), expected.to(wide), tolerance.relative, tolerance.absolute,
                        /*equal_nan=*/true);
}

namespace {

std::string text_of(at::IntArrayRef sizes) {
    std::string text = "[";
    for (const std::int64_t size : sizes) text += " " + std::to_string(size);
    return text + " ]";
}

/// "" or how they differ.
std::string difference(const at::Tensor& found, DType dtype, const HostTensor& stored) {
    if (!found.defined()) return "no result";
    const at::Tensor expected = to_aten(stored);
    if (dtype != stored.dtype || found.scalar_type() != expected.scalar_type()) {
        return "dtype " + std::string(c10::toString(found.scalar_type())) + " (" +
               std::string(graph::name_of(dtype)) + "), stored " +
               std::string(graph::name_of(stored.dtype));
    }
    if (found.sizes() != expected.sizes()) {
        return "shape " + text_of(found.sizes()) + ", stored " + text_of(expected.sizes());
    }
    return are_close(found, expected) ? "" : "values";
}

std::string run_and_compare(const DataSet& data, at::Device device) {
    const graph::OpGraph& graph = data.model.graph;
    Tensors inputs;
    std::vector<graph::TensorId> outputs;
    for (const graph::Op& op : graph.ops()) {
        if (op.kind == graph::OpKind::output) outputs.push_back(op.inputs[0]);
        if (op.kind != graph::OpKind::input) continue;
        if (inputs.size() == data.inputs.size()) return "number of inputs";
        inputs.push_back(placed(graph, op.outputs[0], data.inputs[inputs.size()], device));
    }
    if (inputs.size() != data.inputs.size()) return "number of inputs";
    if (data.outputs.size() != outputs.size()) return "number of outputs";
    const Tensors results = run_graph(
        graph, inputs, [&](const graph::Tensor& tensor) { return data.source(tensor); }, device);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (results[i].defined() && results[i].device() != device) {
            return "output " + std::to_string(i) + ": on " + results[i].device().str();
        }
        const at::Tensor result = results[i].defined() ? results[i].cpu() : results[i];
        const std::string found =
            difference(result, graph.tensor(outputs[i]).dtype, data.outputs[i]);
        if (!found.empty()) return "output " + std::to_string(i) + ": " + found;
    }
    return "";
}

}  // namespace

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

std::vector<fs::path> node_test_folders() {
    std::vector<fs::path> folders;
    const fs::path root = tests::node_tests();
    if (!fs::is_directory(root)) return folders;
    for (const auto& entry : fs::directory_iterator(root)) {
        if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
}

at::Tensor DataSet::source(const graph::Tensor& tensor) const {
    HostTensor read{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
    read.bytes.resize(static_cast<std::size_t>(tensor.bytes().raw()));
    model.source->read(tensor.name, Bytes{0}, read.bytes);
    return to_aten(read);
}

DataSet read_data_set(const fs::path& folder) {
    const fs::path files = folder / "test_data_set_0";
    DataSet data{.model = importers::import_onnx(folder / "model.onnx", {.inputs = files}),
                 .inputs = {},
                 .outputs = importers::TensorFiles(files).read("output")};
    for (const HostTensor& input : importers::TensorFiles(files).read("input")) {
        data.inputs.push_back(to_aten(input));
    }
    return data;
}

at::Tensor placed(const graph::OpGraph& graph, graph::TensorId tensor, const at::Tensor& value,
                  at::Device device) {
    return !value.defined() || is_read_on_host(graph, tensor) ? value : value.to(device);
}

NodeTestResult run_node_test(const fs::path& folder, at::Device device) {
    OnnxModel model;
    try {
        model =
            importers::import_onnx(folder / "model.onnx", {.inputs = folder / "test_data_set_0"});
    } catch (const std::exception& error) {
        return {Outcome::not_imported, first_line(error.what())};
    }
    try {
        check_kernels(model.graph);
    } catch (const UsageError& error) {
        return {Outcome::unsupported, error.what()};
    }
    try {
        const std::string found = run_and_compare(read_data_set(folder), device);
        return {found.empty() ? Outcome::passed : Outcome::wrong, found};
    } catch (const InputError& error) {  // strings, sequences, 4-bit floats
        return {Outcome::failed, first_line(error.what())};
    } catch (const std::exception& error) {
        return {Outcome::failed, first_line(error.what())};
    }
}

}  // namespace partita::runtime
