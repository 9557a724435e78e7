// SPDX-License-Identifier: Apache-2.0
#include "cli/later_options.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "graph/error.h"

namespace partita::cli {
namespace {

struct LaterOption {
    const char* name;
    bool takes_value;
    const char* instead;  ///< what there is now
};
constexpr std::array kLaterOptions = {
    LaterOption{"--reward", true, "No searcher learns: leave it out."},
    LaterOption{"--save-policy", true, "No searcher learns: leave it out."},
    LaterOption{"--load-policy", true, "No searcher learns: leave it out."},
    LaterOption{"--zero-shot", false, "No searcher learns: leave it out."},
};

void add_later_option(CLI::App& app, const LaterOption& later) {
    const std::string message =
        fmt::format("{} is not in this version. {}", later.name, later.instead);
    if (!later.takes_value) {
        app.add_flag_function(later.name, [message](std::int64_t) { throw UsageError(message); })
            ->group("");
        return;
    }
    app.add_option_function<std::string>(
           later.name, [message](const std::string&) { throw UsageError(message); })
        ->group("");
}

}  // namespace

void add_later_options(CLI::App& app) {
    for (const LaterOption& later : kLaterOptions) add_later_option(app, later);
}

}  // namespace partita::cli
