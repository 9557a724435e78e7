// SPDX-License-Identifier: Apache-2.0
//
// One op whose splits are checked, from a conformance node test of ONNX or from a line of
// cases.txt.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/op_graph.h"

namespace partita::tests {

struct Case {
    std::string name;
    graph::OpGraph graph;
    graph::OpId op;
    /// Per operand where its value is stored; "" where check_parts.py makes one up.
    std::vector<std::string> files;
};

/// The conformance node tests that are one op between tensors. Shape targets and the like become
/// constants, as they are in models.
std::vector<Case> node_cases();

/// The lines of cases.txt.
std::vector<Case> own_cases();

/// Everything that check_parts.py needs to run the op whole and in parts:
///
///     {"name", "type", "files", "operands": [{"dtype", "shape", "integers"} or null],
///      "whole": part, "linear": [0, 1], "additive": false, "once": [2],
///      "splittable": ["m", "n", "k"],
///      "splits": [{"text": "n/2 k/3", "factors": ["n", "k"], "parts": [part, ...]}]}
///
/// A part is a graph::PartOp, field by field. Splits are those of splits_of().
nlohmann::json record_of(const Case& test, std::size_t most_parts);

}  // namespace partita::tests
