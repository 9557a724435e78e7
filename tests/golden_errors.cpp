// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace partita::tests {

std::vector<std::filesystem::path> json_files(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

void expect_golden_errors(
    const std::filesystem::path& folder,
    const std::function<void(std::string_view text, const std::string& name)>& read) {
    const std::vector<std::filesystem::path> files = json_files(folder);
    EXPECT_FALSE(files.empty()) << folder;
    for (const std::filesystem::path& file : files) {
        std::string message;
        try {
            read(read_text_file(file), file.filename().string());
        } catch (const InputError& error) {
            message = std::string(error.what()) + "\n";
        }
        EXPECT_FALSE(message.empty()) << file << " was accepted";
        const std::filesystem::path golden = std::filesystem::path(file).replace_extension(".txt");
        if (std::getenv("PARTITA_REWRITE_GOLDEN") != nullptr) {
            std::ofstream(golden, std::ios::binary) << message;
        }
        EXPECT_EQ(message, read_text_file(golden)) << file;
    }
}

}  // namespace partita::tests
