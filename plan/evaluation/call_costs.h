// SPDX-License-Identifier: Apache-2.0
//
// Given costs laid out for the latency of subgraph calls (subgraph_latency.h): plain arrays over
// ops, so that an evaluation is a few passes over them.
//
// Immutable once built, so any number of threads may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

struct CallCosts {
    /// Throws OverflowError where the times of all ops and edges leave half of the range of Time
    /// together: sums of some of them need no further checks.
    explicit CallCosts(const Problem& problem);

    std::size_t ops = 0;
    std::size_t devices = 0;
    std::size_t classes = 0;
    Csr<std::int32_t> before;                 ///< ops whose results an op reads; rising
    Csr<std::int32_t> after;                  ///< ops that read its result; rising
    std::vector<std::int64_t> times;          ///< ps, per op and device class
    std::vector<std::int64_t> communication;  ///< ps, of the op's result
    std::vector<std::int64_t> bytes;          ///< of the op on an accelerator
    std::vector<std::int32_t> device_class;   ///< per device
    std::vector<char> is_accelerator;         ///< per device
    std::vector<std::int64_t> capacity;       ///< bytes, per device; CPUs: no limit

    [[nodiscard]] std::int64_t time(std::size_t op, std::size_t device) const {
        return times[op * classes + static_cast<std::size_t>(device_class[device])];
    }
};

}  // namespace partita::plan
