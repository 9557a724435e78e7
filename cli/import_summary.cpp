// SPDX-License-Identifier: Apache-2.0
#include "cli/import_summary.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostListed = 8;
constexpr std::size_t kWidth = 72;

std::string and_more(std::size_t all, std::string_view noun) {
    if (all <= kMostListed) return {};
    return fmt::format("and {}\n", count_of(static_cast<std::int64_t>(all - kMostListed), noun));
}

std::string missing_table(const ImportReport& report) {
    if (report.missing.empty()) return {};
    Table table({{"not measured"}, {"times", Align::right}, {"predicted", Align::right}, {"why"}});
    for (std::size_t i = 0; i < std::min(report.missing.size(), kMostListed); ++i) {
        const ImportReport::Missing& each = report.missing[i];
        table.add_row({beginning(each.work, kWidth), with_commas(each.tasks),
                       to_text(each.predicted), each.why});
    }
    return '\n' + table.to_text() + and_more(report.missing.size(), "more work");
}

std::string unused_table(const ImportReport& report) {
    if (report.unused.empty()) return {};
    Table table({{"in the file, of no work"}, {"calls", Align::right}, {"in all", Align::right}});
    for (std::size_t i = 0; i < std::min(report.unused.size(), kMostListed); ++i) {
        const ImportReport::Unused& each = report.unused[i];
        table.add_row({beginning(each.call, kWidth), with_commas(each.calls), to_text(each.time)});
    }
    return '\n' + table.to_text() + and_more(report.unused.size(), "more operator");
}

}  // namespace

std::string exported_json(const api::WantedWorks& wanted, const std::filesystem::path& file) {
    const Json json = {{"export_works", file.string()},
                       {"device", wanted.device.model},
                       {"works", wanted.works.size()}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string import_text(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database) {
    std::string times = file.filename().string();
    if (report.operators > 0) {
        times += fmt::format(": {} of different shapes", count_of(report.operators, "operator"));
    }
    if (!report.measured_on.empty()) times += fmt::format(", on {}", report.measured_on);
    std::string text = fact_line("times", times);
    text += fact_line("works", fmt::format("{} of {} of a step, {} of its predicted work",
                                           with_commas(report.found), with_commas(report.works),
                                           percent(report.predicted_found /
                                                   std::max(report.predicted, Time{1}))));
    if (report.predicted_found > Time{}) {
        const double more = report.measured_found / report.predicted_found - 1;
        text += fact_line("these", fmt::format("predicted {}, measured {} ({:+.1f} %)",
                                               to_text(report.predicted_found),
                                               to_text(report.measured_found), 100 * more));
    }
    text += fact_line("database", fmt::format("{}: {} written for {}", database.string(),
                                              count_of(report.rows, "work"), report.device));
    return text + missing_table(report) + unused_table(report);
}

std::string import_json(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database) {
    Json missing = Json::array();
    for (const ImportReport::Missing& each : report.missing) {
        missing.push_back({{"work", each.work},
                           {"tasks", each.tasks},
                           {"predicted_ms", to_milliseconds(each.predicted)},
                           {"why", each.why}});
    }
    Json unused = Json::array();
    for (const ImportReport::Unused& each : report.unused) {
        unused.push_back(
            {{"operator", each.call}, {"calls", each.calls}, {"ms", to_milliseconds(each.time)}});
    }
    const Json json = {{"import", file.string()},
                       {"measured_on", report.measured_on},
                       {"device", report.device},
                       {"database", database.string()},
                       {"rows", report.rows},
                       {"works", report.works},
                       {"found", report.found},
                       {"predicted_ms", to_milliseconds(report.predicted)},
                       {"predicted_found_ms", to_milliseconds(report.predicted_found)},
                       {"measured_found_ms", to_milliseconds(report.measured_found)},
                       {"not_measured", missing},
                       {"of_no_work", unused}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace partita::cli
