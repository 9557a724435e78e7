// SPDX-License-Identifier: Apache-2.0
//
// The measured logs of data/collectives as series: one collective on one machine, a point for every
// size, ranks and nodes, which is the median of all rows (in and out of place).
//
// Left out: sizes below 1 KiB, and the first line of echo-ndv4 with 64 ranks, which holds start-up
// cost (data/collectives/README.md).
#pragma once

#include <set>
#include <vector>

#include "bench/collective_fit.h"
#include "cost/collectives/collective_log.h"
#include "cost/collectives/nccl_tuning.h"

namespace partita::bench {

/// What is known of a machine without measuring its collectives, from data sheets.
struct MachineRow {
    const char* set;
    const char* file;    ///< of data/collectives
    const char* model;   ///< of data/collectives/models, with the topology that NCCL would find
    double node_rate;    ///< GB/s of the links of one GPU inside the node
    double memory_rate;  ///< TB/s of one GPU
    /// Times of nccl-tests, which waits for all ranks before it starts the clock. The others are
    /// kernel times of a profiler, with the wait for the peer in them, or come from frameworks.
    bool nccl_tests;
};

struct Series {
    const MachineRow* machine;
    cost::NcclTuning tuning;
    cost::Collective kind;
    bool send_recv;
    std::vector<Point> points;
    std::vector<cost::MeasuredCollective> rows;

    [[nodiscard]] std::set<int> rank_counts() const;
    /// Counts in the mean of the NCCL-like model: nccl-tests, and at least two numbers of ranks are
    /// left to fit when one is left out.
    [[nodiscard]] bool in_mean() const;
};

std::vector<Series> read_series();

}  // namespace partita::bench
