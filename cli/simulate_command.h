// SPDX-License-Identifier: Apache-2.0
//
// partita simulate PLAN MODEL: prices a plan again, on another machine or under another policy. The
// plan's order is kept unless --scheduler asks for a new one. Exit code 4 when the plan does not
// fit the memory of the machine; the prediction is printed all the same.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_simulate_command();

}  // namespace partita::cli
