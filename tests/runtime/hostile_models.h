// SPDX-License-Identifier: Apache-2.0
//
// Models as strangers make them: a conformance node test with attributes, operands and their
// contents changed, so that a kernel meets what ONNX's inference lets pass. Without LibTorch, whose
// copy of protobuf is not ONNX's.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/host_tensor.h"

namespace partita::runtime {

/// What is imported and run.
struct HostileModel {
    std::string onnx;                       ///< the model's bytes
    std::vector<graph::HostTensor> inputs;  ///< in order of the graph's inputs
    std::string text;                       ///< the same for people
};

/// Mutants of one node test.
class HostileModels {
public:
    /// Of its model and data set 0. Throws InputError where the data are no tensors of numbers.
    explicit HostileModels(const std::filesystem::path& folder);
    ~HostileModels();
    HostileModels(HostileModels&&) noexcept;
    HostileModels& operator=(HostileModels&&) noexcept;

    /// One to three changes: an attribute, an element, an extent or a rank, an operand that is left
    /// out, an input that becomes known when the model is read, the operator set. The same for the
    /// same index.
    [[nodiscard]] HostileModel mutant(int index) const;

private:
    struct Original;
    std::string name_;
    std::unique_ptr<Original> original_;
};

}  // namespace partita::runtime
