// SPDX-License-Identifier: Apache-2.0
//
// Numbers for tensors whose contents nobody gave: a hash of seed, name and position, so that every
// part of a tensor finds its own; and what the graph says about which numbers make sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "graph/operators/part.h"

namespace partita::runtime {

/// Uniform in [0, 1), float64, of the region's extents: splitmix64 of the row-major number of the
/// element in the whole tensor. Source: Steele, Lea, Flood, OOPSLA 2014 (the mixing function).
at::Tensor made_up_values(std::uint64_t seed, std::string_view name, const graph::Shape& shape,
                          const graph::Region& region);

/// The fewest rows that the integers of this tensor select from, through casts and reshapes;
/// nullopt: they select nothing.
std::optional<std::int64_t> selected_rows(const graph::OpGraph& graph, graph::TensorId id);

/// Is it multiplied with, or divided by the root of (a variance), something normalized?
bool is_scale(const graph::OpGraph& graph, graph::TensorId id);

/// Products that are summed up for one result of the op that uses this weight; 1 or more.
std::int64_t fan_in(const graph::OpGraph& graph, graph::TensorId id);

}  // namespace partita::runtime
