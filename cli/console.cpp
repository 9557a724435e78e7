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

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    const auto escape = [&](unsigned byte) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        result += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const unsigned char next =
            i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F in UTF-8
            escape(byte);
            escape(next);
            ++i;
        } else if ((byte < 0x20 && byte != '\n') || byte == 0x7f) {
            escape(byte);
        } else {
            result += text[i];
        }
    }
    return result;
}

void Console::print(std::string_view text) {
    if (!options.json && !options.silent) out_ << printable(text);
}

void Console::json(std::string_view text) {
    if (options.json && !options.silent) out_ << text;
}

void Console::note(std::string_view text) {
    if (!options.quiet && !options.silent) err_ << "partita: " << printable(text) << '\n';
}

void Console::detail(std::string_view text) {
    if (options.verbose && !options.silent) err_ << "partita: " << printable(text) << '\n';
}

Terminal Console::stdout_terminal() {
    return terminal_of(STDOUT_FILENO);
}
Terminal Console::stderr_terminal() {
    return terminal_of(STDERR_FILENO);
}

}  // namespace partita::cli
