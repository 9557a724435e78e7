// SPDX-License-Identifier: Apache-2.0
//
// For platforms without dlopen: no GPUs. Twin: cuda_devices.cpp.
#include "cost/discovery/discover.h"

namespace partita::cost {

std::vector<Device> cuda_devices() {
    return {};
}

}  // namespace partita::cost
