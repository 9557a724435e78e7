// SPDX-License-Identifier: Apache-2.0
//
// How much of a model an iteration gets through, and how well it uses the devices.
//
//     FLOP/s = products of the forward and, in training, of the backward / time of the iteration
//     MFU    = sum over products of FLOP / peak of the devices for their type / time
//
// What is computed once more for the backward does not count (model FLOPs). Source: Chowdhery et al.,
// PaLM, 2022, section 4.1 and appendix B.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

struct Throughput {
    int devices = 0;              ///< that run ops
    double samples = 0;           ///< per second; 0: the model has no batch
    double tokens = 0;            ///< per second; 0: it reads none
    double flops_per_device = 0;  ///< FLOP/s of matrix products
    double mfu = 0;               ///< of 1, if the peaks were reached
};

/// Ids that look up rows of a parameter: elements of the largest input [samples, length] of integers
/// that a Gather takes as it is. 0: the model reads none.
std::int64_t token_count(const graph::OpGraph& graph);

/// Of an iteration that takes that long; all 0 where it takes no time.
Throughput throughput_of(const Problem& problem, const Strategy& strategy, Time iteration);

}  // namespace partita::plan
