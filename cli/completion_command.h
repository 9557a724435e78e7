// SPDX-License-Identifier: Apache-2.0
//
// partita completion SHELL: completions for bash, zsh and fish, and the manual page, from the options
// that the commands declare.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_completion_command();

}  // namespace partita::cli
