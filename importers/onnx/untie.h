// SPDX-License-Identifier: Apache-2.0
//
// Parameters that several layers read. Some are shared on purpose (T5's position bias); others are
// weights of layers that an exporter found equal, as norms are before training, and stored once.
// Trained as they are they would stay equal; untied, each layer has one of its own:
//
//     layers.0/norm ─┐                    layers.0/norm ── ones
//     layers.1/norm ─┴─ ones      ─▶      layers.1/norm ── ones@layers.1
//
// Layers are the blocks of their readers (Op::block); the first keeps the parameter.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "graph/tensor.h"

namespace partita::importers {

/// Parameters that ops of several blocks read whose names differ in the number at their ends.
std::vector<std::string> tied_parameters(const graph::OpGraph& graph);

struct Untied {
    graph::OpGraph graph;
    std::unique_ptr<graph::TensorSource> source;  ///< gives copies what it gave for the original
};

/// Those whose names match one of the globs. Throws UsageError naming `file` for a glob that matches
/// no parameter that blocks share.
Untied untied(const graph::OpGraph& graph, std::unique_ptr<graph::TensorSource> source,
              const std::vector<std::string>& globs, const std::string& file);

}  // namespace partita::importers
