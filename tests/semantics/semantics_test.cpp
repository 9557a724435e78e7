// SPDX-License-Identifier: Apache-2.0
//
// The factor table against the operators' meaning: every splittable factor of every op, in every
// legal degree of 2 to 4, and pairs of factors. part_op() says what each part runs; the evaluator
// of the onnx package runs the parts and the whole, and check_parts.py compares them.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/graph/operators/examples.h"
#include "tests/semantics/case.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace partita::tests {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostPartsOfNodeTest = 80;
constexpr std::size_t kMostPartsOfOwnCase = 240;

/// Operators that have a splittable factor in an example of the table's.
std::vector<std::string> splittable_types() {
    std::ifstream stream(tests::repository() / "tests/graph/op_rules.txt");
    std::set<std::string> types;
    for (std::string line; std::getline(stream, line);) {
        if (line.empty() || line[0] == '#' || line[0] == ' ') continue;
        const graph::OpRule rule = graph::testing::rule_of_example(line);
        if (std::any_of(rule.factors.begin(), rule.factors.end(), [](const graph::Factor& factor) {
                return factor.splittable && factor.extent > 1;
            })) {
            const graph::OpGraph graph = graph::testing::graph_of(line);
            types.insert(graph.op(graph::testing::last_op(graph)).type);
        }
    }
    return {types.begin(), types.end()};
}

/// Runs a program that prints where this one does.
int exit_code_of(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    if (::posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Semantics, EverySplitEqualsTheWholeOp) {
    const std::vector<Case> from_onnx = node_cases();
    ASSERT_FALSE(from_onnx.empty())
        << "no conformance node tests in " << tests::node_tests() << "; run scripts/setup";
    const std::vector<Case> own = own_cases();
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "cases.jsonl";
    {
        std::ofstream stream(file);
        stream << nlohmann::json(splittable_types()).dump() << '\n';
        for (const Case& test : own) stream << record_of(test, kMostPartsOfOwnCase).dump() << '\n';
        for (const Case& test : from_onnx) {
            stream << record_of(test, kMostPartsOfNodeTest).dump() << '\n';
        }
        ASSERT_TRUE(stream.flush());
    }
    std::cout << own.size() << " own cases, " << from_onnx.size() << " conformance node tests\n"
              << std::flush;
    ASSERT_TRUE(fs::exists(PARTITA_ONNX_PYTHON))
        << PARTITA_ONNX_PYTHON << " is missing; run scripts/setup";
    EXPECT_EQ(exit_code_of({PARTITA_ONNX_PYTHON, "-B",
                            (tests::repository() / "tests/semantics/check_parts.py").string(),
                            file.string()}),
              0)
        << "the differences are printed above";
}

}  // namespace
}  // namespace partita::tests
