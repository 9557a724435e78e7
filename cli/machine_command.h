// SPDX-License-Identifier: Apache-2.0
//
// partita machine list | show NAME | discover: the machines that can be planned for.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_machine_command();

}  // namespace partita::cli
