// SPDX-License-Identifier: Apache-2.0
//
// A whole execution: values, program, iterations, and the comparison with one device.
#pragma once

#include "runtime/interface/runtime.h"

namespace partita::runtime {

/// See runtime.h.
ExecuteResult execute(const ExecuteRequest& request);

}  // namespace partita::runtime
