// SPDX-License-Identifier: Apache-2.0
//
// Options that belong to the interface but not to this version. They are hidden from the help, and
// none is silently ignored: giving one throws a UsageError that says what there is instead.
#pragma once

#include <CLI/CLI.hpp>

namespace partita::cli {

void add_later_options(CLI::App& app);

}  // namespace partita::cli
