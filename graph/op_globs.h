// SPDX-License-Identifier: Apache-2.0
//
// Ops as people name many at once: globs over the names of ops and of the blocks that they are in;
// blocks that repeat.
#pragma once

#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace partita::graph {

/// Does `glob` match all of `text`? `*` stands for any text, `?` for one character.
bool glob_matches(std::string_view glob, std::string_view text);

/// Ops whose names match, or the blocks (layers) that they belong to; rising.
std::vector<OpId> matching_ops(const OpGraph& graph, std::string_view glob);

/// Layers that repeat share a name but for the number at its end: "encoder/layer." of
/// "encoder/layer.3"; "" of one without a number.
std::string_view name_of_repeats(std::string_view block);

/// Blocks of computing ops that repeat, in order of their first op.
std::vector<std::string_view> layers_of(const OpGraph& graph);

}  // namespace partita::graph
