// SPDX-License-Identifier: Apache-2.0
//
// The help of every command: its example works as pasted, and it promises nothing that is not
// there. Which commands there are is asked of the program, which reads its table.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;

/// The words between spaces.
std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    std::size_t begin = line.find_first_not_of(' ');
    while (begin != std::string::npos) {
        const auto end = line.find(' ', begin);
        words.push_back(line.substr(begin, end - begin));
        begin = line.find_first_not_of(' ', end);
    }
    return words;
}

/// The words of the line after "Example:", without the program.
std::vector<std::string> example_of(const std::string& help) {
    const auto begin = help.find("partita ", help.find("Example:"));
    std::vector<std::string> words = words_of(help.substr(begin, help.find('\n', begin) - begin));
    words.erase(words.begin());
    return words;
}

class Help : public ProgramTest {
protected:
    /// In the order of the table, as who names another one is told: "There is: plan, execute, ...".
    std::vector<std::string> commands() {
        const std::string told = run({"no-such-command"}).err;
        const std::string before = "There is: ";
        const auto begin = told.find(before);
        if (begin == std::string::npos) return {};
        std::string list = told.substr(begin + before.size());
        list.resize(std::min(list.find('.'), list.size()));
        std::erase(list, ',');
        return words_of(list);
    }
};

TEST_F(Help, KnowsTheCommandsOfTheProgram) {
    EXPECT_THAT(commands(),
                testing::IsSupersetOf({"plan", "execute", "profile", "simulate", "verify",
                                       "inspect", "compare", "machine", "export"}));
}

// In the order of the table: `plan` writes the plan that the others read.
TEST_F(Help, ExamplesWorkAsPasted) {
    std::filesystem::create_directory_symlink(example(""), folder() / "examples");
    for (const std::string& command : commands()) {
        const Outcome help = run({command, "--help"});
        ASSERT_EQ(help.code, 0) << command;
        const std::vector<std::string> example = example_of(help.out);
        ASSERT_FALSE(example.empty()) << command;
        EXPECT_EQ(example[0], command);
        const Outcome result = run(example);
        if (!has_runtime() && (command == "execute" || command == "profile")) {
            EXPECT_EQ(result.code, 2) << command;
            EXPECT_THAT(result.err, HasSubstr("scripts/setup")) << command;
        } else {
            EXPECT_EQ(result.code, 0) << command << ": " << result.err;
        }
    }
}

TEST_F(Help, NamesEveryCommand) {
    const std::string help = run({"--help"}).out;
    for (const std::string& command : commands()) EXPECT_THAT(help, HasSubstr("\n  " + command));
}

TEST_F(Help, NamesSearchersAndWhatSteersThoseThatLearn) {
    const std::string help = run({"plan", "--help"}).out;
    for (const char* text : {"critical-path", "rl-hierarchical", "--save-policy", "--load-policy",
                             "--zero-shot", "--learning-curve"}) {
        EXPECT_THAT(help, HasSubstr(text));
    }
}

TEST_F(Help, IsAskedForByWordsToo) {
    EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
    EXPECT_EQ(run({"version"}).out, run({"--version"}).out);
    for (const std::string& command : commands()) {
        EXPECT_EQ(run({"help", command}).out, run({command, "--help"}).out) << command;
    }
    EXPECT_EQ(run({"help", "nothing"}).code, 2);
}

TEST_F(Help, SaysWhatMayHaveBeenMeant) {
    expect_refused("plna: no command of this version. Is it 'plan'?", {"plna"});
    const std::string mlp = example("runnable/mlp/model.onnx");
    expect_refused("Is it '--batch'? See `partita plan --help`.", {"plan", mlp, "--bacth", "8"});
    expect_refused("Is it '--micro-batches'?", {"plan", mlp, "--micro-batch=8"});
    expect_refused("machine 'dgx-h10': unknown preset. Is it 'dgx-h100'?",
                   {"plan", mlp, "--batch", "8", "--machine", "dgx-h10"});
    expect_refused("--optimizer adan: unknown. Is it 'adam'?",
                   {"plan", mlp, "--batch", "8", "--optimizer", "adan"});
}

}  // namespace
}  // namespace partita::tests
