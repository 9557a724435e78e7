// SPDX-License-Identifier: Apache-2.0
//
// The scheduling rule of plan/incremental/timeline.h word for word, in quadratic time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/csr.h"
#include "plan/incremental/timeline.h"

namespace partita::plan {

struct PlainTask {
    std::int32_t resource_set = 0;
    std::int64_t duration = 0;
    std::int32_t launch = 0;
    std::uint64_t key = 0;
    std::vector<Slot> predecessors;
    friend bool operator==(const PlainTask&, const PlainTask&) = default;
};

/// By slot; predecessors have smaller numbers.
using PlainGraph = std::map<Slot, PlainTask>;

struct LiteralTimeline {
    std::vector<Slot> order;
    std::map<Slot, std::int64_t> start;
    std::int64_t makespan = 0;
};

/// Scans all ready tasks and commits the smallest, until none is left.
LiteralTimeline literal_timeline(const PlainGraph& graph, const Csr<std::int32_t>& resource_sets,
                                 const Csr<std::int32_t>& hosts, int resources);

}  // namespace partita::plan
