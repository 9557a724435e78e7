// SPDX-License-Identifier: Apache-2.0
//
// One ONNX conformance node test: a model, its inputs, and the outputs it must give.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/host_tensor.h"
#include "importers/onnx/onnx_importer.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// Of an error.
std::string first_line(const std::string& text);

/// Folders of tests::node_tests() in order of name; empty when there are none.
std::vector<std::filesystem::path> node_test_folders();

enum class Outcome { passed, unsupported, not_imported, failed, wrong };

struct NodeTestResult {
    Outcome outcome = Outcome::passed;
    std::string reason;  ///< why it did not pass
};

/// A model with one of its data sets.
struct DataSet {
    importers::OnnxModel model;
    Tensors inputs;  ///< in order of the Input ops, on the CPU
    std::vector<graph::HostTensor> outputs;

    /// Contents of a parameter or constant, of a body too, on the CPU.
    [[nodiscard]] at::Tensor source(const graph::Tensor& tensor) const;
};

/// Of model.onnx and test_data_set_0. Throws InputError when the importer refuses them or ATen has
/// no such elements.
DataSet read_data_set(const std::filesystem::path& folder);

/// A value where a device's kernels want it: on the CPU when it is only read on the host.
at::Tensor placed(const graph::OpGraph& graph, graph::TensorId tensor, const at::Tensor& value,
                  at::Device device);

/// Are the values the same? Integers, bools and 8-bit floats are equal; floats within 1e-3 relative
/// and 1e-7 absolute, as ONNX's own runner asks, float16 within 2e-3 and bfloat16 within 1.6e-2
/// (two units in the last place). Both on the CPU, of one dtype and shape.
bool are_close(const at::Tensor& found, const at::Tensor& expected);

/// Imports the model, runs it on the device and compares: dtypes and shapes must be those stored,
/// values are_close().
NodeTestResult run_node_test(const std::filesystem::path& folder, at::Device device = at::kCPU);

}  // namespace partita::runtime
