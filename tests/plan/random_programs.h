// SPDX-License-Identifier: Apache-2.0
//
// Random networks and random legal strategies for them: every kind of split that configs can say,
// partial sums that pass through linear ops, and updates of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "plan/incremental/lowering.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "search/support/random.h"

namespace partita::plan {

enum class Layers {
    any,
    samples_apart,  ///< none that mixes samples, so that micro-batches can pass one by one
    linear          ///< samples apart, and the outputs are linear in each parameter
};

/// x [5 6] through `layers` random layers with uneven extents; rows are the batch.
graph::OpGraph random_network(search::Random& random, int layers, Layers kind);

/// The same network, its ops in a few layer blocks: mostly in that of the op before.
graph::OpGraph in_layer_blocks(search::Random& random, graph::OpGraph graph);

/// At most so many devices: on one switch, or half of the time in two nodes behind a slow network.
cost::Machine random_machine(search::Random& random, int most);

/// Where the search may choose it, blocks recompute at random.
Strategy random_strategy(search::Random& random, const Problem& problem, int micro_batches);

/// The same on stages of `size` devices each, in the order of ops: what is on more of them is whole.
Strategy in_stages(Strategy strategy, int stages, int size);

/// Every op on all devices of its stage, in the order of ops: each has a copy, or a part along one
/// of its factors. What comes out may be illegal.
Strategy shared_stages(search::Random& random, const Problem& problem, int stages,
                       int micro_batches);

/// All-gathers of what copies brought to their devices from others (scatter_gather.h).
int gathers_in_nodes(const TaskGraph& tasks);

/// Ops recompute what they do in the base or, sometimes, what is drawn for their blocks anew.
void draw_recompute(search::Random& random, const Problem& problem, const Strategy& base,
                    std::vector<OpChange>& changes);

/// Policy::bucket_bytes: none, several, one, or one for each layer.
std::optional<Bytes> random_buckets(search::Random& random);

/// Policy::host_time: free, or more or less than tasks take.
HostTime random_host_time(search::Random& random);

/// Does it fetch several parameters for a use?
bool is_fused_fetch(const Problem& problem, const Task& task);

/// A few ops that follow each other get the config, or parameters the update, that they have in
/// another random strategy. What comes out may be illegal.
std::vector<OpChange> random_change(search::Random& random, const Problem& problem,
                                    const Strategy& base);

/// A line per op: "Add5(MatMul1.y0, w3) m:2 *:2 on 0 4 1 2".
std::string text_of(const Problem& problem, const Strategy& strategy);

}  // namespace partita::plan
