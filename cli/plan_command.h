// SPDX-License-Identifier: Apache-2.0
//
// partita plan MODEL: searches for the best plan and writes it.
//
//     options ─▶ outputs writable? ─▶ model, machine ─▶ Problem ─▶ Engine ─▶ files ─▶ summary
//
// Infeasible: exit code 4, and no file is touched. Interrupted: the best plan so far.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_plan_command();

}  // namespace partita::cli
