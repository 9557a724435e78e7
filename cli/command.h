// SPDX-License-Identifier: Apache-2.0
//
// A command of the program: its options and what it does. Adding a row to command_table() is the
// whole registration: parser, help and the tests read the table.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/console.h"
#include "cli/exit_code.h"

namespace partita::cli {

class Command {
public:
    virtual ~Command() = default;
    /// Declares the options; they are filled when the command line is parsed.
    virtual void add_options(CLI::App& app) = 0;
    /// Throws the exceptions of base/error.h; main.cpp maps them to exit codes.
    [[nodiscard]] virtual ExitCode run(Console& console) = 0;
};

struct CommandRow {
    std::string_view name;
    std::string_view summary;
    std::string_view example;  ///< works when pasted into a checkout with a release build
    std::unique_ptr<Command> (*make)() = nullptr;
};
std::span<const CommandRow> command_table();

}  // namespace partita::cli
