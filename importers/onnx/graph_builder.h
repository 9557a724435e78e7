// SPDX-License-Identifier: Apache-2.0
//
// Draft -> OpGraph: drops nodes that no output needs, makes names unique, gives weights and
// constants their role, turns what bodies take from outside into operands.
//
// Throws InputError naming a needed value whose shape is not known.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "graph/op_graph.h"
#include "importers/onnx/draft.h"
#include "importers/onnx/model_source.h"
#include "importers/onnx/reading_limits.h"

namespace partita::importers {

struct BuiltGraph {
    graph::OpGraph graph;
    std::map<std::string, Contents> contents;  ///< of every parameter and constant
    std::int64_t dead_nodes = 0;
    std::int64_t bounded_tensors = 0;
    std::int64_t opaque_tensors = 0;                        ///< sequences, optionals and maps
    std::map<std::string, std::int64_t> unknown_operators;  ///< without a schema: name -> nodes
};

struct BuildOptions {
    std::string file;                ///< for messages
    std::int64_t literal_limit = 0;  ///< elements of the largest integer tensor that is remembered
    bool exact_roles = false;        ///< see onnx_importer.h
    ReadingLimits& limits;
};

BuiltGraph build_graph(const Draft& draft, const std::deque<Value>& values,
                       const BuildOptions& options);

}  // namespace partita::importers
