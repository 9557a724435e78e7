// SPDX-License-Identifier: Apache-2.0
//
// This host as a Machine: its cores as CPU devices, its memory, its measured memory bandwidth and
// arithmetic speed, and its GPUs when the CUDA driver is there (opened at run time, never linked).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/machine/machine.h"

namespace partita::cost {

/// One CPU device per core with an equal share of memory and bandwidth, then all GPUs. Measures for
/// a fraction of a second. Throws nothing: what cannot be found out has a stated default.
Machine discover_machine();

/// GPUs as the CUDA driver reports them; empty without a driver. Twin files: cuda_devices.cpp asks
/// the driver, no_cuda_devices.cpp is for platforms without dlopen.
std::vector<Device> cuda_devices();

}  // namespace partita::cost
