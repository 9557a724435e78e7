// SPDX-License-Identifier: Apache-2.0
//
// partita verify PLAN MODEL: proves a plan legal for the model and, with --machine, for another
// machine than its own; or says exactly why not, one sentence a line, and exits with 6.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_verify_command();

}  // namespace partita::cli
