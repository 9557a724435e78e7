// SPDX-License-Identifier: Apache-2.0
//
// The `partita` program: parses the command line, runs one command, and maps what is thrown to the
// exit codes of exit_code.h. The only place that catches.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/similar.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/shared_options.h"
#include "search/portfolio/searcher_table.h"

namespace partita::cli {
namespace {

struct Entry {
    CLI::App* app = nullptr;  // owned by the main App
    std::unique_ptr<Command> command;
};

/// CLI11's help with its long lines broken.
class HelpFormatter final : public CLI::Formatter {
public:
    HelpFormatter() { column_width(kNameWidth); }

    std::string make_option_desc(const CLI::Option* option) const override {
        return broken(CLI::Formatter::make_option_desc(option));
    }

private:
    static constexpr std::size_t kNameWidth = 26;
    static constexpr std::size_t kTextWidth = 72;

    static std::string broken(const std::string& text) {
        std::string result;
        std::size_t column = 0;
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            if (column > 0 && column + 1 + word.size() > kTextWidth) {
                result += '\n';
                column = 0;
            }
            if (column > 0) result += ' ';
            column += word.size() + (column > 0 ? 1 : 0);
            result += word;
        }
        return result;
    }
};

/// The searchers, for the help of the commands that search.
std::string searcher_list() {
    std::string text = "\n\nSearchers:";
    for (const search::SearcherRow& row : search::searcher_table()) {
        text += fmt::format("\n  {:<18}{}", row.name, row.summary);
    }
    return text;
}

std::vector<Entry> add_commands(CLI::App& main, ConsoleOptions& options) {
    std::vector<Entry> entries;
    for (const CommandRow& row : command_table()) {
        Entry entry{.app = main.add_subcommand(std::string(row.name), std::string(row.summary)),
                    .command = row.make()};
        entry.command->add_options(*entry.app);
        add_console_options(*entry.app, options);
        const bool searches = row.name == "plan" || row.name == "compare";
        entry.app->footer(fmt::format("\nExample:\n  {}{}", row.example,
                                      searches ? searcher_list() : std::string()));
        entries.push_back(std::move(entry));
    }
    return entries;
}

/// CLI11 would only say that the word was not expected.
void check_command(int argc, const char* const* argv) {
    if (argc < 2 || argv[1][0] == '-') return;
    std::vector<std::string> known;
    for (const CommandRow& row : command_table()) {
        if (row.name == argv[1]) return;
        known.emplace_back(row.name);
    }
    throw UsageError(fmt::format("{}: no command of this version.{} There is: {}.", argv[1],
                                 suggestion(argv[1], known), fmt::join(known, ", ")));
}

/// `partita help plan`, `partita version`: as `partita plan --help`, `partita --version`.
std::vector<const char*> with_words_as_options(int argc, const char* const* argv) {
    std::vector<const char*> arguments(argv, argv + argc);
    if (argc < 2) return arguments;
    const std::string_view word = argv[1];
    if (word == "version") {
        arguments = {argv[0], "--version"};
    } else if (word == "help" && argc == 2) {
        arguments = {argv[0], "--help"};
    } else if (word == "help") {
        arguments = {argv[0], argv[2], "--help"};
    }
    return arguments;
}

/// The option that was meant by the first one that the command does not have.
std::string suggested_option(const CLI::App& command) {
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    for (const std::string& extra : command.remaining()) {
        if (!extra.starts_with("--")) continue;
        return suggestion(extra.substr(0, extra.find('=')), known);
    }
    return "";
}

ExitCode run(int given_count, const char* const* given, Console& console) {
    const std::vector<const char*> arguments = with_words_as_options(given_count, given);
    const auto argc = static_cast<int>(arguments.size());
    const char* const* const argv = arguments.data();
    CLI::App main("Plans how one neural network runs on many devices.", "partita");
    main.set_version_flag("--version", PARTITA_VERSION);
    main.require_subcommand(1);
    main.formatter(std::make_shared<HelpFormatter>());
    main.footer("\n`partita COMMAND --help` explains a command and shows an example.");
    check_command(argc, argv);
    const std::vector<Entry> entries = add_commands(main, console.options);
    try {
        main.parse(argc, argv);
    } catch (const CLI::Success& request) {  // --help, --version
        main.exit(request, std::cout, std::cerr);
        return ExitCode::done;
    } catch (const CLI::ParseError& error) {
        std::string where = "partita";
        std::string meant;
        for (const Entry& entry : entries) {
            if (!entry.app->parsed()) continue;
            where += " " + entry.app->get_name();
            meant = suggested_option(*entry.app);
        }
        throw UsageError(fmt::format("{}.{} See `{} --help`.", error.what(), meant, where));
    }
    const auto chosen =
        std::ranges::find_if(entries, [](const Entry& entry) { return entry.app->parsed(); });
    return chosen->command->run(console);
}

/// A full disk behind stdout must not look like success.
ExitCode flushed(ExitCode code) {
    std::cout.flush();
    if (std::cout || code != ExitCode::done) return code;
    throw UsageError("stdout: cannot be written. Free some space, or send it elsewhere.");
}

}  // namespace

ExitCode run_program(int argc, const char* const* argv) {
    Console console(std::cout, std::cerr);
    const auto fail = [&](ExitCode code, std::string_view kind, std::string_view what) {
        std::cout.flush();
        std::cerr << "partita: " << kind << printable(what) << '\n';
        if (console.at_failure) console.at_failure(static_cast<int>(code), std::string(what));
        return code;
    };
    try {
        return flushed(run(argc, argv, console));
    } catch (const UsageError& error) {
        return fail(ExitCode::wrong_usage, "", error.what());
    } catch (const InputError& error) {
        return fail(ExitCode::bad_input, "", error.what());
    } catch (const DeviceError& error) {
        return fail(ExitCode::device_failure, "", error.what());
    } catch (const MismatchError& error) {
        return fail(ExitCode::check_failed, "", error.what());
    } catch (const std::bad_alloc&) {
        return fail(ExitCode::bad_input, "", "not enough memory on this host for this model.");
    } catch (const std::exception& error) {
        return fail(ExitCode::internal_error, "internal error (a bug): ", error.what());
    }
}

}  // namespace partita::cli

int main(int argc, char** argv) {
    return static_cast<int>(partita::cli::run_program(argc, argv));
}
