// SPDX-License-Identifier: Apache-2.0
//
// Real devices for the devices of a plan.
//
//     "cpu:2"       two workers of this process, each with half of its cores
//     "cuda:0,1"    two GPUs, one worker each
//     ""            for each device of the machine one of its kind: workers for CPU devices, with
//                   their threads, and GPUs from the first on; both where the machine has both
//
// Of several processes each names those for its own devices of the plan.
//
// When there are fewer real devices than plan devices, neighbours share one. When there are more,
// the rest stays idle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/machine/machine.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

struct RealDevices {
    Placement placement;
    Hardware hardware;
    bool own_cores = true;  ///< no two workers share a core
    int first_core = 0;     ///< of those that this process may use
};

/// The devices of the plan that this process drives, when there are several.
struct LocalDevices {
    std::vector<int> devices;  ///< empty: all
    int first_gpu = 0;         ///< when none are named: those before are other processes'
};

/// Throws UsageError when the text names no devices, or devices that this host does not have.
/// `cores`: of this host that are this process's.
RealDevices real_devices(std::string_view text, const cost::Machine& machine, int cores,
                         const LocalDevices& local = {});

}  // namespace partita::runtime
