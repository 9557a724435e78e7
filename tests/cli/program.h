// SPDX-License-Identifier: Apache-2.0
//
// Runs the partita program as a user does, in a folder of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace partita::tests {

struct Outcome {
    int code = -1;  ///< exit code; 128 + signal when a signal ended it
    std::string out;
    std::string err;
    std::int64_t memory = 0;  ///< most bytes resident at once
};

/// A test with an empty folder, in which the program runs; removed at the end.
class ProgramTest : public testing::Test {
protected:
    ProgramTest();

    Outcome run(const std::vector<std::string>& arguments);
    /// The same, with stdout going to `file` instead.
    Outcome run_into(const std::string& file, const std::vector<std::string>& arguments);
    /// Sends SIGINT as soon as stderr holds `text`, and at once again, as timeout(1) does.
    Outcome run_and_interrupt_at(std::string_view text, const std::vector<std::string>& arguments);

    /// What the dynamic linker says of the files that it opens for it; it must end with exit code
    /// 0.
    std::string libraries_of(const std::vector<std::string>& arguments);

    /// It must end as wrong usage (exit code 2), say that, and write nothing.
    void expect_refused(const std::string& message, const std::vector<std::string>& arguments);

    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    std::filesystem::path write(const std::string& name, std::string_view text);
    [[nodiscard]] std::string read(const std::string& name) const;
    /// Of plan.json.
    [[nodiscard]] nlohmann::json written_plan() const {
        return nlohmann::json::parse(read("plan.json"));
    }
    [[nodiscard]] std::vector<std::string> files() const;  ///< names, sorted

private:
    Outcome run_with(const std::string& out, const std::vector<std::string>& arguments,
                     std::string_view interrupt_at);

    TemporaryFolder own_;
    std::filesystem::path folder_ = own_.path() / "work";
    /// stdout and stderr lie beside the folder, so that files() shows only what the program wrote.
    std::filesystem::path out_ = own_.path() / "stdout";
    std::filesystem::path err_ = own_.path() / "stderr";
};

/// Is there what executes? It is loaded from beside the program, and built where LibTorch is.
bool has_runtime();

/// A file of the repository's examples.
std::string example(std::string_view path);

/// Plans the smallest example on two CPUs with critical-path, unless `more` says otherwise.
std::vector<std::string> plan_mlp(const std::vector<std::string>& more = {});

}  // namespace partita::tests
