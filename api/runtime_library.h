// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/interface/runtime.h"

namespace partita::api {

/// The runtime, loaded from libpartita_runtime beside this library when it is first asked for; the
/// same one from then on. Throws UsageError when there is none, saying why and what to do.
runtime::Runtime& load_runtime();

}  // namespace partita::api
