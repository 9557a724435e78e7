// SPDX-License-Identifier: Apache-2.0
//
// What is in a model, counted: for `inspect` and for the head of the `plan` summary.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"

namespace partita::cli {

struct TypeFacts {
    std::int64_t ops = 0;
    Flops flops;
    bool matrix_product = false;
};

struct ModelFacts {
    std::int64_t ops = 0;  ///< compute ops; sources and outputs are not counted
    std::int64_t tensors = 0;
    std::int64_t parameters = 0;  ///< elements
    Bytes parameter_bytes;
    Bytes constant_bytes;
    Flops flops;         ///< of one forward pass, two per multiply-add
    Flops matrix_flops;  ///< of those, what runs on matrix units: MatMul, Gemm, Conv, LSTM, ...
    std::map<std::string, TypeFacts> types;
    std::map<std::string, std::int64_t> unsupported;  ///< types under the conservative rule
    std::map<std::string, std::int64_t> blocks;       ///< compute ops of each named block
};

/// `rules` as of graph::rules_of().
ModelFacts facts_of(const graph::OpGraph& graph, std::span<const graph::OpRule> rules);

/// The chain of ops whose FLOPs add up to most; ties by id.
struct CriticalPath {
    Flops flops;
    std::vector<graph::OpId> ops;
};
CriticalPath critical_path(const graph::OpGraph& graph, std::span<const graph::OpRule> rules);

/// "8.18 GFLOP", "1,234 FLOP".
std::string flops_text(Flops flops);
/// As a JSON number can hold it: exact below 2^63.
double to_double(Flops flops);

}  // namespace partita::cli
