// SPDX-License-Identifier: Apache-2.0
//
// Real devices for the devices of a plan.
//
//     "cpu:2"       two workers of this process, each with half of its cores
//     "cuda:0,1"    two GPUs, one worker each
//     ""            as many of the machine's kind as it has devices; CPU devices with its threads
//
// When there are fewer real devices than plan devices, neighbours share one. When there are more, the rest
// stays idle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/machine.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

struct RealDevices {
    Placement placement;
    Hardware hardware;
    bool own_cores = true;  ///< no two workers share a core
};

/// Throws UsageError when the text names no devices, or devices that this host does not have. `cores`: of
/// this host.
RealDevices real_devices(std::string_view text, const cost::Machine& machine, int cores);

}  // namespace partita::runtime
