// SPDX-License-Identifier: Apache-2.0
//
// One ONNX conformance node test: a model, its inputs, and the outputs it must give.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace partita::runtime {

/// Folders of PARTITA_NODE_TESTS in order of name; empty when there are none.
std::vector<std::filesystem::path> node_test_folders();

enum class Outcome { passed, unsupported, not_imported, failed, wrong };

struct NodeTestResult {
    Outcome outcome = Outcome::passed;
    std::string reason;  ///< why it did not pass
};

/// Imports the model, runs it on the CPU and compares: dtypes and shapes must be those stored;
/// integers, bools and 8-bit floats equal; floats within 1e-3 relative and 1e-7 absolute, as
/// ONNX's own runner asks, float16 within 2e-3 and bfloat16 within 1.6e-2 (two units in the last
/// place).
NodeTestResult run_node_test(const std::filesystem::path& folder);

}  // namespace partita::runtime
