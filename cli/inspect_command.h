// SPDX-License-Identifier: Apache-2.0
//
// partita inspect MODEL|PLAN|MACHINE: what is in a file. Told apart by content: a .json is a plan,
// a machine or a workload; what is no file is a machine preset.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_inspect_command();

}  // namespace partita::cli
