// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/units.h"

namespace partita::plan {

/// Aliases and given costs may take no time. A task does, so that no two things happen in sequence
/// at one moment: what is ready then is known before anything starts (simulate.h).
inline constexpr Time kShortestTask{1};

}  // namespace partita::plan
