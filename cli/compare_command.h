// SPDX-License-Identifier: Apache-2.0
//
// partita compare MODEL --searchers A,B,...: one search each, with the same budget, in one table.
// Exit code 4 when none of them finds a plan that fits.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_compare_command();

}  // namespace partita::cli
