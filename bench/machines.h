// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cost/machine/machine.h"

namespace partita::bench {

/// The machine with devices of that much memory: what is compared with did not count any.
inline cost::Machine with_memory(const cost::Machine& machine, std::int64_t gib) {
    std::vector<cost::Device> roomy(machine.devices().begin(), machine.devices().end());
    for (cost::Device& device : roomy) device.memory = Bytes{gib << 30};
    return {machine.name(),
            std::move(roomy),
            {machine.switches().begin(), machine.switches().end()},
            {machine.links().begin(), machine.links().end()},
            machine.collectives()};
}

}  // namespace partita::bench
