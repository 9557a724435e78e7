// SPDX-License-Identifier: Apache-2.0
//
// From what the CUDA driver reports of a GPU to the figures of a Device:
//
//     FLOP/s    = FLOP per clock and SM of its architecture (data/cuda_architectures.json)
//                 x SMs x clock
//     bytes/s   = 2 (both edges of the clock) x memory clock x bus width
//
// Threads: pure. Errors: InputError when the data file is missing or wrong.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "cost/machine/machine.h"

namespace partita::cost {

struct CudaProperties {
    std::string name;
    Bytes memory;
    int capability = 0;  ///< 10 * major + minor
    int multiprocessors = 0;
    std::int64_t clock_hz = 0;
    std::int64_t memory_clock_hz = 0;
    int memory_bus_bits = 0;
};

/// Name and node are left to the caller. An architecture that the table lacks is taken as the
/// newest one before it. Figures are at least 1 whatever the driver says.
Device cuda_device(const CudaProperties& properties);

/// The link between a GPU and its host when nothing is known of it; ends are left to the caller.
Link cuda_host_link();

}  // namespace partita::cost
