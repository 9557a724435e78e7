// SPDX-License-Identifier: Apache-2.0
//
// Bad input as golden files: a folder holds one file per fault, named for it, and beside each
// "<name>.json" the exact message, "<name>.txt".
//
//     PARTITA_REWRITE_GOLDEN=1 build/release/tests/cost_test --gtest_filter='*Bad*'
//
// writes the messages anew; read their diff like code.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::tests {

/// The .json files of `folder`, sorted by name.
std::vector<std::filesystem::path> json_files(const std::filesystem::path& folder);

/// Calls `read(text, file name)` for each of the .json files, and expects an InputError with the
/// message beside it.
void expect_golden_errors(
    const std::filesystem::path& folder,
    const std::function<void(std::string_view text, const std::string& name)>& read);

}  // namespace partita::tests
