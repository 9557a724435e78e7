// SPDX-License-Identifier: Apache-2.0
//
// partita export PLAN MODEL --format F -o FILE: a plan in the format of another tool.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_export_command();

}  // namespace partita::cli
