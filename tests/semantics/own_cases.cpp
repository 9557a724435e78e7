// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/graph/operators/examples.h"
#include "tests/semantics/case.h"
#include "tests/support/paths.h"

namespace partita::tests {

std::vector<Case> own_cases() {
    std::ifstream stream(tests::repository() / "tests/semantics/cases.txt");
    if (!stream) throw std::runtime_error("tests/semantics/cases.txt is missing");
    std::vector<Case> cases;
    for (std::string line; std::getline(stream, line);) {
        if (line.empty() || line[0] == '#') continue;
        Case test;
        test.name = line;
        test.graph = graph::testing::graph_of(line);
        test.op = graph::testing::last_op(test.graph);
        test.files.resize(test.graph.op(test.op).inputs.size());
        cases.push_back(std::move(test));
    }
    return cases;
}

}  // namespace partita::tests
