// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_execute_command();

}  // namespace partita::cli
