// SPDX-License-Identifier: Apache-2.0
//
// Random strategies in a schedule: the ops in order, cut into as many pieces as stages and chunks
// make positions, each split at random on the devices of its stage.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/incremental/lowering.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"

namespace partita::plan {

/// Each stage has an equal share of the devices.
struct RandomStages {
    int stages = 1;
    int chunks = 1;
    /// Ops with which positions begin, but for the first; rising.
    std::vector<std::size_t> borders;
    bool refetch = false;  ///< some parameters are fetched again for each use
};

/// A problem in a schedule: of all kinds, as many devices and layers as give it something to do.
struct RandomPipeline {
    RandomPipeline(search::Random& random, bool training);
    /// Layer blocks recompute, where it is training.
    void recompute(search::Random& random);

    int micro_batches = 1;
    int stages = 1;
    graph::OpGraph graph;
    cost::Machine machine;
    ProblemOptions options;
};

RandomStages draw_stages(search::Random& random, const Problem& problem, int stages);

/// With the problem's policy, and nothing fetched again. Nothing: none was found that is legal.
std::optional<Strategy> random_pipeline(search::Random& random, const Problem& problem,
                                        const RandomStages& stages);

/// A few ops as they are in another random pipeline, with the same borders or with others; or all
/// ops. What comes out may be illegal.
std::vector<OpChange> random_pipeline_change(search::Random& random, const Problem& problem,
                                             const Strategy& base, const RandomStages& stages);

}  // namespace partita::plan
