// SPDX-License-Identifier: Apache-2.0
//
// The options of searchers that learn. Whether they fit together and to the searchers named is for
// api::check_learning() to say.
#pragma once

#include <CLI/CLI.hpp>

#include "api/learned_library.h"

namespace partita::cli {

void add_learning_options(CLI::App& app, api::LearningOptions& options);

}  // namespace partita::cli
