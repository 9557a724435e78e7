// SPDX-License-Identifier: Apache-2.0
//
// A machine with other figures: what a plan would be worth if its network were slower.
//
//     set      a figure with its unit              network.bandwidth=12.5GB/s
//     scale    a factor in 1e-6 .. 1e6             network=0.25
//
// Paths are a group and a field of machine files; for scale a group alone is its first field:
//
//     links       bandwidth, latency       all links
//     network     bandwidth, latency       those that leave a node
//     node        bandwidth, latency       those that do not
//     device      memory, memory_bandwidth, launch_interval, matrix_flops, vector_flops
//     compute     (scale alone) matrix_flops and vector_flops
//
// A figure that was 0 for "as another" (element types without matrix_flops) stays so. The name of
// the machine stays; its digest does not.
// Threads: pure. Errors: UsageError naming the option, what came and the known paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/machine/machine.h"

namespace partita::cost {

struct WhatIf {
    std::vector<std::string> set;    ///< "network.bandwidth=12.5GB/s"
    std::vector<std::string> scale;  ///< "network=0.25"; after all of `set`
    [[nodiscard]] bool empty() const { return set.empty() && scale.empty(); }
};

/// A factor of 1 leaves the figures as they are.
Machine changed(const Machine& machine, const WhatIf& changes);

}  // namespace partita::cost
