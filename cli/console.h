// SPDX-License-Identifier: Apache-2.0
//
// Where a command writes: results to stdout, everything else to stderr.
//
//     print    the result for people; nothing with --json
//     json     the result for programs; nothing without --json
//     note     a warning or a hint, on stderr unless --quiet
//     detail   what happens and how long it takes, on stderr with --verbose
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace partita::cli {

/// --json, --quiet, --verbose.
struct ConsoleOptions {
    bool json = false;
    bool quiet = false;
    bool verbose = false;
    bool silent = false;  ///< no option: another process says it all
};

/// What the stream on the other end can show.
struct Terminal {
    bool is_terminal = false;
    bool unicode = true;  ///< the locale does not say otherwise
    int width = 100;      ///< columns; a fixed number in pipes, so that output can be compared
};

/// `text` with its control characters but line breaks as \xNN: names of ops, devices and files come
/// from strangers, and a terminal would obey them. Everything written for people passes here.
std::string printable(std::string_view text);

class Console {
public:
    Console(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

    /// Set once the options are known.
    ConsoleOptions options;

    /// Called last, with exit code and message, when an error ends the program; may end it itself.
    std::function<void(int, const std::string&)> at_failure;

    void print(std::string_view text);
    void json(std::string_view text);
    void note(std::string_view text);
    void detail(std::string_view text);

    [[nodiscard]] std::ostream& err() { return err_; }
    [[nodiscard]] static Terminal stdout_terminal();
    [[nodiscard]] static Terminal stderr_terminal();

private:
    std::ostream& out_;
    std::ostream& err_;
};

}  // namespace partita::cli
