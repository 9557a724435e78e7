// SPDX-License-Identifier: Apache-2.0
//
// Where to cut a sequence of groups into stages of a pipeline, when stages differ in speed and
// sending to the next one takes time:
//
//     groups    g0 g1 g2 │ g3 g4 g5 g6 g7 │            stages may stay empty
//               stage 0  s  stage 1                    s: what reads behind the border from before it
//
// With M micro-batches an iteration takes about as long as the busiest of stages and borders, and a
// M-th of the others. For a limit T no stage and no border may take longer, and the sum of all
// shall be small:
//
//     best(k, j) = min over i <= j of best(k - 1, i) + send(k, i) + work(k, i .. j)
//
// in O(groups) for every stage, because the window of i that keeps within T and the memory only
// moves forward. T falls from what nothing exceeds by an eighth at a time, until nothing fits.
//
// Estimates add up what a timeline overlaps, so the cuts of all limits are worth a look.
// Optimal: the least estimate is within a seventh of the least value of all such cuts.
// Source: the objective is that of Narayanan et al., PipeDream, SOSP 2019, with the bubble added.
#pragma once

#include <vector>

#include "base/units.h"

namespace partita::search {

struct CutStage {
    std::vector<Time> work;  ///< of each group on this stage, per iteration
    std::vector<Time> send;  ///< of the border before each group; empty: the first stage
    Bytes memory;
};

struct StageCut {
    double estimate = 0;     ///< of an iteration, ps; the busiest counted as T
    std::vector<int> stage;  ///< of each group, rising
};

/// One cut for each limit, those with long stages first; none where the memory is too small.
/// `bytes` of each group; all stages have as many groups as that.
std::vector<StageCut> cut_into_stages(const std::vector<CutStage>& stages,
                                      const std::vector<Bytes>& bytes, int micro_batches);

}  // namespace partita::search
