// SPDX-License-Identifier: Apache-2.0
#include "cli/import_summary.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;
using Finding = cost::TracedWorks::Finding;

constexpr std::size_t kMostListed = 8;
constexpr std::size_t kWidth = 72;

std::string_view name_of(Finding finding) {
    switch (finding) {
    case Finding::found: return "found";
    case Finding::not_called: return "not in the file";
    case Finding::ambiguous: return "several alike";
    case Finding::no_rule: return "no operator known";
    }
    return {};
}

/// Of a step.
Time of_step(const api::WantedWork& work) {
    return work.tasks * work.predicted;
}

struct Totals {
    std::int64_t works = 0;  ///< of a step
    std::int64_t found = 0;
    Time predicted;  ///< of a step
    Time predicted_found;
    Time measured_found;
};

Totals totals_of(const Imported& imported) {
    Totals totals;
    std::size_t row = 0;  // of what was found
    for (std::size_t i = 0; i < imported.wanted.works.size(); ++i) {
        const api::WantedWork& work = imported.wanted.works[i];
        const bool found = imported.times.traced.findings[i] == Finding::found;
        const std::size_t own = row;
        if (found) ++row;
        if (work.tasks == 0) continue;
        ++totals.works;
        totals.predicted += of_step(work);
        if (!found) continue;
        ++totals.found;
        totals.predicted_found += of_step(work);
        totals.measured_found += work.tasks * imported.times.traced.rows[own].time.median;
    }
    return totals;
}

/// The longest first.
std::vector<std::size_t> missing_works(const Imported& imported) {
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < imported.wanted.works.size(); ++i) {
        const bool found = imported.times.traced.findings[i] == Finding::found;
        if (!found && imported.wanted.works[i].tasks > 0) missing.push_back(i);
    }
    std::ranges::stable_sort(missing, std::greater{},
                             [&](std::size_t i) { return of_step(imported.wanted.works[i]); });
    return missing;
}

Time sum_of(const cost::OperatorCalls& calls) {
    Time sum;
    for (const Time time : calls.times) sum += time;
    return sum;
}

std::vector<std::size_t> unused_calls(const Imported& imported) {
    const auto& calls = imported.times.times.calls;
    std::vector<std::size_t> unused;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        if (imported.times.traced.used[i] == 0) unused.push_back(i);
    }
    std::ranges::stable_sort(unused, std::greater{},
                             [&](std::size_t i) { return sum_of(calls[i]); });
    return unused;
}

std::string and_more(std::size_t all, std::string_view noun) {
    if (all <= kMostListed) return {};
    return fmt::format("and {}\n", count_of(static_cast<std::int64_t>(all - kMostListed), noun));
}

std::string missing_table(const Imported& imported) {
    const std::vector<std::size_t> missing = missing_works(imported);
    if (missing.empty()) return {};
    Table table({{"not measured"}, {"times", Align::right}, {"predicted", Align::right}, {"why"}});
    for (std::size_t i = 0; i < std::min(missing.size(), kMostListed); ++i) {
        const api::WantedWork& work = imported.wanted.works[missing[i]];
        table.add_row({beginning(work.work.signature.text, kWidth), with_commas(work.tasks),
                       to_text(of_step(work)),
                       std::string(name_of(imported.times.traced.findings[missing[i]]))});
    }
    return '\n' + table.to_text() + and_more(missing.size(), "more work");
}

std::string unused_table(const Imported& imported) {
    const std::vector<std::size_t> unused = unused_calls(imported);
    if (unused.empty()) return {};
    Table table({{"in the file, of no work"}, {"calls", Align::right}, {"in all", Align::right}});
    for (std::size_t i = 0; i < std::min(unused.size(), kMostListed); ++i) {
        const cost::OperatorCalls& calls = imported.times.times.calls[unused[i]];
        table.add_row({beginning(text_of(calls), kWidth), with_commas(std::ssize(calls.times)),
                       to_text(sum_of(calls))});
    }
    return '\n' + table.to_text() + and_more(unused.size(), "more operator");
}

std::string source_of(const Imported& imported) {
    const cost::OperatorTimes& times = imported.times.times;
    std::string text = imported.file.filename().string();
    if (!times.calls.empty()) {
        text +=
            fmt::format(": {} of different shapes", count_of(std::ssize(times.calls), "operator"));
    }
    if (!times.device.empty()) text += fmt::format(", on {}", times.device);
    return text;
}

}  // namespace

std::string import_text(const Imported& imported) {
    const Totals totals = totals_of(imported);
    std::string text = fact_line("times", source_of(imported));
    text += fact_line("works", fmt::format("{} of {} of a step, {} of its predicted work",
                                           with_commas(totals.found), with_commas(totals.works),
                                           percent(totals.predicted_found /
                                                   std::max(totals.predicted, Time{1}))));
    if (totals.found > 0) {
        text += fact_line(
            "these", fmt::format("predicted {}, measured {} ({:+.1f} %)",
                                 to_text(totals.predicted_found), to_text(totals.measured_found),
                                 100 * (totals.measured_found / totals.predicted_found - 1)));
    }
    text +=
        fact_line("database", fmt::format("{}: {} written for {}", imported.database.string(),
                                          count_of(std::ssize(imported.times.traced.rows), "work"),
                                          imported.wanted.device.model));
    return text + missing_table(imported) + unused_table(imported);
}

std::string import_json(const Imported& imported) {
    const Totals totals = totals_of(imported);
    Json missing = Json::array();
    for (const std::size_t i : missing_works(imported)) {
        const api::WantedWork& work = imported.wanted.works[i];
        missing.push_back({{"work", work.work.signature.text},
                           {"tasks", work.tasks},
                           {"predicted_ms", to_milliseconds(work.predicted)},
                           {"why", name_of(imported.times.traced.findings[i])}});
    }
    Json unused = Json::array();
    for (const std::size_t i : unused_calls(imported)) {
        const cost::OperatorCalls& calls = imported.times.times.calls[i];
        unused.push_back({{"operator", text_of(calls)},
                          {"calls", calls.times.size()},
                          {"ms", to_milliseconds(sum_of(calls))}});
    }
    const Json json = {{"import", imported.file.string()},
                       {"device", imported.wanted.device.model},
                       {"database", imported.database.string()},
                       {"rows", imported.times.traced.rows.size()},
                       {"works", totals.works},
                       {"found", totals.found},
                       {"predicted_ms", to_milliseconds(totals.predicted)},
                       {"predicted_found_ms", to_milliseconds(totals.predicted_found)},
                       {"measured_found_ms", to_milliseconds(totals.measured_found)},
                       {"not_measured", missing},
                       {"of_no_work", unused}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace partita::cli
