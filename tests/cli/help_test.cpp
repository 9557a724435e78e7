// SPDX-License-Identifier: Apache-2.0
//
// The help of every command: its example works as pasted, and it promises nothing that is not there.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kCommands = {"plan",    "simulate", "verify", "inspect",
                                            "compare", "machine",  "export"};

/// The words of the line after "Example:", without the program.
std::vector<std::string> example_of(const std::string& help) {
    const auto begin = help.find("partita ", help.find("Example:"));
    const std::string line = help.substr(begin, help.find('\n', begin) - begin);
    std::vector<std::string> words;
    for (std::size_t at = line.find(' '); at != std::string::npos;) {
        const auto end = line.find(' ', at + 1);
        words.push_back(line.substr(at + 1, end == std::string::npos ? end : end - at - 1));
        at = end;
    }
    return words;
}

class Help : public ProgramTest {};

// In the order of the table: `plan` writes the plan that the others read.
TEST_F(Help, ExamplesWorkAsPasted) {
    std::filesystem::create_directory_symlink(example(""), folder() / "examples");
    for (const std::string& command : kCommands) {
        const Outcome help = run({command, "--help"});
        ASSERT_EQ(help.code, 0);
        const Outcome result = run(example_of(help.out));
        EXPECT_EQ(result.code, 0) << command << ": " << result.err;
    }
}

TEST_F(Help, NamesEveryCommand) {
    const std::string help = run({"--help"}).out;
    for (const std::string& command : kCommands) EXPECT_THAT(help, HasSubstr(command));
}

TEST_F(Help, NamesSearchersAndWhatSteersThoseThatLearn) {
    const std::string help = run({"plan", "--help"}).out;
    for (const char* text : {"critical-path", "rl-hierarchical", "--save-policy", "--load-policy",
                             "--zero-shot", "--learning-curve"}) {
        EXPECT_THAT(help, HasSubstr(text));
    }
}

}  // namespace
}  // namespace partita::tests
