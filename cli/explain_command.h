// SPDX-License-Identifier: Apache-2.0
//
// partita explain PLAN MODEL [OP]: why a plan takes as long as it does, and why an op lies where it lies.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_explain_command();

}  // namespace partita::cli
