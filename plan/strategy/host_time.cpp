// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/host_time.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include "base/figure.h"

namespace partita::plan {

namespace {

struct Row {
    std::string_view name;
    Time HostTime::*field;
};
constexpr std::array kRows{Row{"kernel", &HostTime::kernel},
                           Row{"communication", &HostTime::communication},
                           Row{"update", &HostTime::update}};

/// In microseconds if those are whole.
std::string text_of(Time time) {
    constexpr std::int64_t kMicrosecond = 1'000'000;
    const bool whole = time.raw() % kMicrosecond == 0;
    return whole ? fmt::format("{}us", time.raw() / kMicrosecond) : fmt::format("{}ps", time.raw());
}

std::optional<Time> time_of(std::string_view text) {
    const auto time = parse_figure(text, FigureKind::time);
    if (!time || Time(*time) > kMostHostTime) return std::nullopt;
    return Time(*time);
}

}  // namespace

std::string to_text(const HostTime& host) {
    if (!host.any()) return "none";
    std::string text;
    for (const Row& row : kRows) {
        text += fmt::format("{}{}={}", text.empty() ? "" : ",", row.name, text_of(host.*row.field));
    }
    return text;
}

std::optional<HostTime> host_time_from_text(std::string_view text) {
    if (text == "none") return HostTime{};
    if (text.find('=') == std::string_view::npos) {
        const auto time = time_of(text);
        if (!time) return std::nullopt;
        return HostTime{.kernel = *time, .communication = *time, .update = {}};
    }
    HostTime host;
    std::array<bool, kRows.size()> said{};
    for (const auto part : std::views::split(text, ',')) {
        const std::string_view word(part.begin(), part.end());
        const std::size_t equals = std::min(word.find('='), word.size());
        const auto row = std::ranges::find(kRows, word.substr(0, equals), &Row::name);
        if (row == kRows.end() || equals == word.size()) return std::nullopt;
        const auto time = time_of(word.substr(equals + 1));
        if (!time || std::exchange(said[static_cast<std::size_t>(row - kRows.begin())], true)) {
            return std::nullopt;
        }
        host.*row->field = *time;
    }
    return host;
}

}  // namespace partita::plan
