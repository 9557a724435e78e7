// SPDX-License-Identifier: Apache-2.0
//
// Where tests find files. Functions instead of macros: only paths.cpp knows where this clone lies,
// so the compiler's cache serves every other object of the tests to all clones.
#pragma once

#include <filesystem>

namespace partita::tests {

/// The repository's folder.
std::filesystem::path repository();
/// ONNX's conformance node tests: NAME/model.onnx, NAME/case.json, ... Not there before
/// scripts/setup has run.
std::filesystem::path node_tests();
/// The partita program of this build.
std::filesystem::path program();

}  // namespace partita::tests
