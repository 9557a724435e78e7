// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/node_test.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include "graph/error.h"
#include "importers/onnx/onnx_importer.h"
#include "importers/onnx/tensor_file.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace fs = std::filesystem;
using graph::DType;
using graph::HostTensor;
using importers::OnnxModel;

namespace {

at::Tensor read_source(const OnnxModel& model, const graph::Tensor& tensor) {
    HostTensor read{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
    read.bytes.resize(static_cast<std::size_t>(tensor.bytes().raw()));
    model.source->read(tensor.name, Bytes{0}, read.bytes);
    return to_aten(read);
}

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

bool are_close(const at::Tensor& found, const at::Tensor& expected) {
    const Tolerance tolerance = tolerance_of(found.scalar_type());
    if (at::isIntegralType(found.scalar_type(), /*includeBool=*/true)) {
        return at::equal(found.to(at::kLong), expected.to(at::kLong));
    }
    const auto wide = at::isComplexType(found.scalar_type()) ? at::kComplexDouble : at::kDouble;
    return at::allclose(found.to(wide), expected.to(wide), tolerance.relative, tolerance.absolute,
                        /*equal_nan=*/true);
}

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

std::string run_and_compare(const OnnxModel& model, const fs::path& data) {
    std::vector<at::Tensor> inputs;
    for (const HostTensor& input : importers::read_tensor_files(data, "input")) {
        inputs.push_back(to_aten(input));
    }
    std::vector<graph::TensorId> outputs;
    std::size_t input_count = 0;
    for (const graph::Op& op : model.graph.ops()) {
        if (op.kind == graph::OpKind::output) outputs.push_back(op.inputs[0]);
        if (op.kind == graph::OpKind::input) ++input_count;
    }
    if (inputs.size() != input_count) return "number of inputs";
    const auto stored = importers::read_tensor_files(data, "output");
    if (stored.size() != outputs.size()) return "number of outputs";
    const Tensors results = run_graph(model.graph, inputs, [&](const graph::Tensor& tensor) {
        return read_source(model, tensor);
    });
    for (std::size_t i = 0; i < stored.size(); ++i) {
        const std::string found =
            difference(results[i], model.graph.tensor(outputs[i]).dtype, stored[i]);
        if (!found.empty()) return "output " + std::to_string(i) + ": " + found;
    }
    return "";
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<fs::path> node_test_folders() {
    std::vector<fs::path> folders;
    const fs::path root = PARTITA_NODE_TESTS;
    if (!fs::is_directory(root)) return folders;
    for (const auto& entry : fs::directory_iterator(root)) {
        if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
}

NodeTestResult run_node_test(const fs::path& folder) {
    const fs::path data = folder / "test_data_set_0";
    OnnxModel model;
    try {
        model = importers::import_onnx(folder / "model.onnx", {.inputs_dir = data});
    } catch (const std::exception& error) {
        return {Outcome::not_imported, first_line(error.what())};
    }
    try {
        check_kernels(model.graph);
    } catch (const UsageError& error) {
        return {Outcome::unsupported, error.what()};
    }
    try {
        const std::string found = run_and_compare(model, data);
        return {found.empty() ? Outcome::passed : Outcome::wrong, found};
    } catch (const InputError& error) {  // strings, sequences, 4-bit floats
        return {Outcome::failed, first_line(error.what())};
    } catch (const std::exception& error) {
        return {Outcome::failed, first_line(error.what())};
    }
}

}  // namespace partita::runtime
