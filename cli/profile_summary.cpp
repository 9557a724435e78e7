// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_summary.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/statistics.h"
#include "cli/model_facts.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "cost/collectives/collective.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostTypes = 12;

struct TypeRows {
    std::set<std::string> texts;
    Time longest;
    std::vector<double> giga_flops;  ///< per second, of each row
    std::vector<double> giga_bytes;
};
using Types = std::map<std::pair<std::string, cost::Phase>, TypeRows>;

Types types_of(const api::ProfileReport& report) {
    Types types;
    for (const cost::DeviceProfile& device : report.rows) {
        for (const cost::MeasuredWork& row : device.works) {
            TypeRows& type = types[{row.type, row.phase}];
            type.texts.insert(device.device.model + row.signature.text);
            type.longest = std::max(type.longest, row.time.median);
            const double nanoseconds = static_cast<double>(row.time.median.raw()) * 1e-3;
            type.giga_flops.push_back(to_double(row.flops) / nanoseconds);
            type.giga_bytes.push_back(static_cast<double>(row.bytes.raw()) / nanoseconds);
        }
    }
    return types;
}

std::string works_table(const api::ProfileReport& report) {
    Types types = types_of(report);
    std::vector<Types::value_type*> order;
    for (auto& each : types) order.push_back(&each);
    std::ranges::stable_sort(order, std::greater{},
                             [](const auto* each) { return each->second.longest; });
    Table table({{"measured"},
                 {"parts", Align::right},
                 {"longest", Align::right},
                 {"GFLOP/s", Align::right},
                 {"GB/s", Align::right}});
    for (std::size_t i = 0; i < std::min(order.size(), kMostTypes); ++i) {
        auto& [key, rows] = *order[i];
        const std::string_view phase = name_of(key.second);
        table.add_row(
            {key.first.empty() ? std::string(phase) : fmt::format("{} {}", phase, key.first),
             with_commas(std::ssize(rows.texts)), to_text(rows.longest),
             fmt::format("{:.3g}", median(rows.giga_flops)),
             fmt::format("{:.3g}", median(rows.giga_bytes))});
    }
    if (table.empty()) return {};
    std::string text = '\n' + table.to_text();
    if (order.size() > kMostTypes) {
        text += fmt::format("and {} of other kinds\n", order.size() - kMostTypes);
    }
    return text;
}

std::string transfers_table(const api::ProfileReport& report) {
    struct Moves {
        std::set<std::int64_t> sizes;
        Time shortest = Time::max();
        double best = 0.0;  ///< GB/s
    };
    std::map<std::tuple<bool, cost::Collective, int>, Moves> moves;
    for (const cost::DeviceProfile& device : report.rows) {
        for (const cost::MeasuredTransfer& row : device.transfers) {
            Moves& of = moves[{!row.copy, row.kind, row.ranks}];
            of.sizes.insert(row.bytes.raw());
            of.shortest = std::min(of.shortest, row.time.median);
            of.best = std::max(of.best, static_cast<double>(row.bytes.raw()) /
                                            (static_cast<double>(row.time.median.raw()) * 1e-3));
        }
    }
    Table table({{"measured"},
                 {"devices", Align::right},
                 {"sizes", Align::right},
                 {"shortest", Align::right},
                 {"best GB/s", Align::right}});
    for (const auto& [key, of] : moves) {
        const auto& [collective, kind, ranks] = key;
        table.add_row({collective ? std::string(name_of(kind)) : "copy", std::to_string(ranks),
                       with_commas(std::ssize(of.sizes)), to_text(of.shortest),
                       fmt::format("{:.3g}", of.best)});
    }
    return table.empty() ? std::string() : '\n' + table.to_text();
}

std::int64_t count(const api::ProfileReport& report, auto rows) {
    std::int64_t sum = 0;
    for (const cost::DeviceProfile& device : report.rows) sum += std::ssize(device.*rows);
    return sum;
}

}  // namespace

std::string profile_text(const Profiled& profiled) {
    const api::ProfileReport& report = profiled.report;
    std::string runs =
        fmt::format("{} in {:.1f} s", count_of(report.runs, "run"), profiled.seconds);
    if (report.known_runs > 0) {
        runs += fmt::format("; {} known already (--repeat measures them again)",
                            with_commas(report.known_runs));
    }
    if (report.large_runs > 0) {
        runs += fmt::format("; {} left out, larger than this host's memory",
                            with_commas(report.large_runs));
    }
    std::string text = fact_line("runs", runs);
    text += fact_line("devices", profiled.hardware.text);
    text += fact_line(
        "database",
        fmt::format("{}: {} and {} written", profiled.database.string(),
                    count_of(count(report, &cost::DeviceProfile::works), "work"),
                    count_of(count(report, &cost::DeviceProfile::transfers), "transfer")));
    return text + works_table(report) + transfers_table(report);
}

std::string profile_json(const Profiled& profiled) {
    const api::ProfileReport& report = profiled.report;
    const Json json = {{"database", profiled.database.string()},
                       {"devices", profiled.hardware.text},
                       {"runs", report.runs},
                       {"known_runs", report.known_runs},
                       {"large_runs", report.large_runs},
                       {"works", count(report, &cost::DeviceProfile::works)},
                       {"transfers", count(report, &cost::DeviceProfile::transfers)},
                       {"interrupted", report.interrupted},
                       {"elapsed_s", profiled.seconds}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace partita::cli
