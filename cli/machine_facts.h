// SPDX-License-Identifier: Apache-2.0
//
// A machine in text, for `machine show`, `machine discover` and `inspect`.
#pragma once

#include <string>

#include "cost/machine/machine.h"

namespace partita::cli {

/// Devices and links in tables, those alike in a row folded, and where the figures come from.
std::string machine_text(const cost::Machine& machine);

}  // namespace partita::cli
