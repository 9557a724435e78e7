// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>

namespace partita::cli {
namespace {

/// False only when the locale names another character set: many containers set none at all.
bool speaks_unicode() {
    for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const char* value = std::getenv(variable);
        if (value == nullptr || *value == '\0') continue;
        const std::string locale = value;
        return locale.find("UTF-8") != std::string::npos ||
               locale.find("utf8") != std::string::npos;
    }
    return true;
}

Terminal terminal_of(int descriptor) {
    constexpr int kNarrowest = 60;
    constexpr int kWidest = 160;
    Terminal terminal{.is_terminal = isatty(descriptor) != 0, .unicode = speaks_unicode()};
    winsize size{};
    if (terminal.is_terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        terminal.width = std::clamp<int>(size.ws_col, kNarrowest, kWidest);
    }
    return terminal;
}

}  // namespace

void Console::print(std::string_view text) {
    if (!options.json && !options.silent) out_ << text;
}

void Console::json(std::string_view text) {
    if (options.json && !options.silent) out_ << text;
}

void Console::note(std::string_view text) {
    if (!options.quiet && !options.silent) err_ << "partita: " << text << '\n';
}

void Console::detail(std::string_view text) {
    if (options.verbose && !options.silent) err_ << "partita: " << text << '\n';
}

Terminal Console::stdout_terminal() {
    return terminal_of(STDOUT_FILENO);
}
Terminal Console::stderr_terminal() {
    return terminal_of(STDERR_FILENO);
}

}  // namespace partita::cli
