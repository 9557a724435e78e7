// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/op_table.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/operators/op_rules.h"
#include "tests/graph/operators/examples.h"
#include "tests/support/paths.h"

namespace partita::graph {
namespace {

using testing::complaint_about;
using testing::graph_of;
using testing::last_op;
using testing::text_of;

const std::filesystem::path kFolder = tests::repository() / "tests/graph";

std::vector<std::string> lines_of(const std::string& file) {
    std::ifstream stream(kFolder / file);
    EXPECT_TRUE(stream) << file;
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::string trimmed(const std::string& line) {
    const std::size_t first = line.find_first_not_of(' ');
    return first == std::string::npos ? "" : line.substr(first);
}

TEST(OpTable, RowsAreWellFormed) {
    for (const OpRow& row : op_table()) EXPECT_NO_THROW(check_row(row)) << row.type;
}

TEST(OpTable, MalformedRowsAreRejected) {
    EXPECT_THROW(check_row({.type = "NoArrow", .factors = "a b"}), std::logic_error);
    EXPECT_THROW(check_row({.type = "Digit", .factors = "a 2 -> a"}), std::logic_error);
    EXPECT_THROW(check_row({.type = "TwoEllipses", .factors = "... .. -> ..."}), std::logic_error);
    EXPECT_THROW(check_row({.type = "Whole", .factors = "a -> a", .whole = "b"}), std::logic_error);
    EXPECT_THROW(check_row({.type = "Nothing"}), std::logic_error);
}

TEST(OpTable, FindsEveryRowByName) {
    for (const OpRow& row : op_table()) EXPECT_EQ(find_row(row.domain, row.type), &row);
    EXPECT_EQ(find_row("ai.onnx", "Conv"), find_row("", "Conv"));
    EXPECT_EQ(find_row("", "Conv2"), nullptr);
    EXPECT_EQ(find_row("com.example", "Conv"), nullptr);
}

// Every rule of op_rules.txt, and that it contradicts neither its shapes nor itself.
TEST(OpTable, RulesOfExamples) {
    std::vector<std::string> lines = lines_of("op_rules.txt");
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
        if (lines[i].empty() || lines[i][0] == '#') continue;
        SCOPED_TRACE(lines[i]);
        const OpGraph graph = graph_of(lines[i]);
        const OpRule rule = rule_of(graph, last_op(graph));
        EXPECT_EQ(complaint_about(graph, last_op(graph), rule), "");
        EXPECT_EQ(text_of(rule), trimmed(lines[i + 1]));
        lines[i + 1] = "    " + text_of(rule);
        ++i;
    }
    if (std::getenv("PARTITA_REWRITE") == nullptr) return;
    std::ofstream stream(kFolder / "op_rules.txt");
    for (const std::string& line : lines) stream << line << '\n';
}

TEST(OpTable, EveryRowHasAnExample) {
    std::set<std::string> examples{"If", "Loop", "Scan", "partita:Pointwise"};  // have bodies
    for (const std::string& line : lines_of("op_rules.txt")) {
        examples.insert(line.substr(0, line.find(' ')));
    }
    for (const OpRow& row : op_table()) {
        const std::string domain = row.domain.empty() ? "" : std::string(row.domain) + ":";
        EXPECT_THAT(examples, ::testing::Contains(domain + std::string(row.type)));
    }
}

// How each operator of ONNX gets its rule. A row is shared when its letters or its function serve
// several operators.
TEST(OpTable, CoversEveryOnnxOperator) {
    std::map<std::string_view, int> letters;
    std::map<MakeRule*, int> functions;
    for (const OpRow& row : op_table()) row.make ? ++functions[row.make] : ++letters[row.factors];
    int own = 0;
    int shared = 0;
    std::vector<std::string> whole;
    std::map<std::string, std::vector<std::string>> conservative;
    std::set<std::string> names;
    for (const std::string& line : lines_of("onnx_operators.txt")) {
        if (line.empty() || line[0] == '#') continue;
        const std::size_t dot = line.rfind(':');
        const std::string domain = dot == std::string::npos ? "" : line.substr(0, dot);
        const std::string type = dot == std::string::npos ? line : line.substr(dot + 1);
        EXPECT_TRUE(names.insert(line).second) << line;
        const OpRow* row = find_row(domain, type);
        if (row == nullptr) {
            conservative[domain].push_back(type);
        } else if (row->factors == ".. -> ..") {
            whole.push_back(type);
        } else if (row->make ? functions[row->make] > 1 : letters[row->factors] > 1) {
            ++shared;
        } else {
            ++own;
        }
    }
    std::cout << names.size() << " operators: " << own << " with a row of their own, " << shared
              << " by a shared rule, " << whole.size() << " known but never split:";
    for (const std::string& type : whole) std::cout << ' ' << type;
    std::size_t count = 0;
    for (const auto& [domain, types] : conservative) {
        count += types.size();
        std::cout << "\n"
                  << types.size() << " conservative in " << (domain.empty() ? "ai.onnx" : domain)
                  << ":";
        for (const std::string& type : types) std::cout << ' ' << type;
    }
    std::cout << '\n';
    EXPECT_EQ(names.size(), 227u);
    EXPECT_EQ(static_cast<std::size_t>(own + shared) + whole.size() + count, names.size());
    // Sequences, optionals, strings, images and data-dependent selections; nothing else.
    EXPECT_THAT(
        conservative[""],
        ::testing::ElementsAre(
            "Compress", "ConcatFromSequence", "ImageDecoder", "NonMaxSuppression", "Optional",
            "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
            "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap",
            "SplitToSequence", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "Unique"));
    // Nor may the table name what ONNX does not have.
    for (const OpRow& row : op_table()) {
        if (row.domain == "partita") continue;
        EXPECT_TRUE(names.contains(std::string(row.type))) << row.type;
    }
}

TEST(OpTable, UnknownOperatorIsConservative) {
    const OpGraph graph = graph_of("Unheard | 2,3 4 -> 5,6");
    const OpRule rule = rule_of(graph, last_op(graph));
    EXPECT_TRUE(rule.conservative);
    EXPECT_TRUE(rule.factors.empty());
    EXPECT_EQ(complaint_about(graph, last_op(graph), rule), "");
}

}  // namespace
}  // namespace partita::graph
