// SPDX-License-Identifier: Apache-2.0
//
// `partita profile`: measures what plans of a model are made of.
#pragma once

#include <memory>

#include "cli/command.h"

namespace partita::cli {

std::unique_ptr<Command> make_profile_command();

}  // namespace partita::cli
