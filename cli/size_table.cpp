// SPDX-License-Identifier: Apache-2.0
#include "cli/size_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "cli/description.h"
#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPicoseconds = 1e12;
constexpr double kSecondsPerHour = 3'600;
constexpr double kMillion = 1e6;

/// The same of all rows: tokens where the model reads them, else samples, else iterations.
double rate_of(const SizeRow& row) {
    const plan::Throughput& through = row.throughput;
    if (through.tokens > 0) return through.tokens;
    if (through.samples > 0) return through.samples;
    return kPicoseconds / static_cast<double>(std::max<std::int64_t>(row.value->raw(), 1));
}

std::string_view unit_of(const std::vector<SizeRow>& rows) {
    for (const SizeRow& row : rows) {
        if (!row.value) continue;
        return row.throughput.tokens > 0    ? "tokens"
               : row.throughput.samples > 0 ? "samples"
                                            : "iterations";
    }
    return "samples";
}

/// Of a million tokens (samples, iterations).
double cost_of(const SizeRow& row) {
    return row.price_per_hour / kSecondsPerHour / rate_of(row) * kMillion;
}

std::string bar(double share, bool unicode) {
    constexpr double kWidth = 16;
    const auto cells = static_cast<std::size_t>(std::max(1.0, std::round(share * kWidth)));
    std::string text;
    for (std::size_t i = 0; i < cells; ++i) text += unicode ? "█" : "#";
    return text;
}

double price_of(const cost::Machine& machine) {
    double price = 0;
    for (const cost::Device& device : machine.devices()) {
        if (device.price_per_hour == 0) return 0;
        price += device.price_per_hour;
    }
    return price;
}

}  // namespace

void SizeTable::add(const Size& size, const Loaded& loaded, const search::SearchResult& result) {
    const plan::Problem& problem = *loaded.problem;
    SizeRow row{.size = size,
                .devices = problem.device_count(),
                .price_per_hour = price_of(problem.machine()),
                .status = std::string(name_of(result.status)),
                .value = std::nullopt,
                .gap = std::nullopt,
                .memory = {},
                .throughput = {},
                .configuration = result.configuration};
    if (row.size.machine.empty()) row.size.machine = problem.machine().name();
    if (result.has_plan()) {
        row.value = result.evaluation.value;
        row.gap = result.gap;
        row.memory = most_memory(result.evaluation);
        row.throughput = plan::throughput_of(problem, result.strategy, result.evaluation.value);
    }
    rows_.push_back(std::move(row));
}

void SizeTable::add_refused(const Size& size, const cost::Machine& machine) {
    rows_.push_back({.size = size,
                     .devices = machine.device_count(),
                     .price_per_hour = price_of(machine),
                     .status = "refused",
                     .value = std::nullopt,
                     .gap = std::nullopt,
                     .memory = {},
                     .throughput = {},
                     .configuration = {}});
}

bool SizeTable::all_have_prices() const {
    return std::ranges::all_of(rows_, [](const SizeRow& row) { return row.price_per_hour > 0; });
}

bool SizeTable::reaches(const SizeRow& row) const {
    return row.value && (!most_time_ || *row.value <= *most_time_);
}

std::optional<std::size_t> SizeTable::best() const {
    const bool any_reaches =
        most_time_ && std::ranges::any_of(rows_, [&](const SizeRow& row) { return reaches(row); });
    const auto key = [&](const SizeRow& row) {
        const double devices = row.devices;
        const double slowness = 1 / rate_of(row);
        return any_reaches ? std::tuple(devices, slowness) : std::tuple(slowness, devices);
    };
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!rows_[i].value || (any_reaches && !reaches(rows_[i]))) continue;
        if (!best || key(rows_[i]) < key(rows_[*best])) best = i;
    }
    return best;
}

std::vector<std::size_t> SizeTable::front() const {
    const bool priced = all_have_prices();
    const auto key = [&](const SizeRow& row) {
        return std::pair(priced ? row.price_per_hour : row.devices, 1 / rate_of(row));
    };
    std::vector<std::size_t> front;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!rows_[i].value) continue;
        const auto own = key(rows_[i]);
        const bool beaten = std::ranges::any_of(rows_, [&](const SizeRow& other) {
            if (!other.value) return false;
            const auto its = key(other);
            return its != own && its.first <= own.first && its.second <= own.second;
        });
        if (!beaten) front.push_back(i);
    }
    return front;
}

std::string SizeTable::answers() const {
    std::string text;
    const auto fewest = [&](std::string_view label, const auto& holds) {
        const SizeRow* found = nullptr;
        for (const SizeRow& row : rows_) {
            if (!holds(row)) continue;
            if (found == nullptr || row.devices < found->devices) found = &row;
        }
        const std::string what =
            found == nullptr
                ? "none of these"
                : fmt::format("{}, {}: {}", size_text(found->size),
                              count_of(found->devices, "device"), to_text(*found->value));
        text += fmt::format("{:{}}{}\n", label, 26, what);
    };
    fewest("fewest that fit", [](const SizeRow& row) { return row.value.has_value(); });
    if (most_time_) {
        fewest("fewest within " + to_text(*most_time_),
               [&](const SizeRow& row) { return reaches(row); });
    }
    if (const auto row = best()) {
        text += fmt::format("{:{}}{}\n", "written", 26, size_text(rows_[*row].size));
    }
    return text;
}

std::string SizeTable::text(const Terminal& terminal) const {
    const std::string_view unit = unit_of(rows_);
    const bool priced = all_have_prices();
    std::vector<Column> columns = {{.title = ""},
                                   {.title = "machine"},
                                   {.title = "batch", .align = Align::right},
                                   {.title = "devices", .align = Align::right},
                                   {.title = "time", .align = Align::right},
                                   {.title = "gap", .align = Align::right},
                                   {.title = fmt::format("{}/s", unit), .align = Align::right},
                                   {.title = "per device", .align = Align::right},
                                   {.title = "MFU", .align = Align::right},
                                   {.title = "memory", .align = Align::right}};
    if (priced) {
        columns.push_back({.title = fmt::format("cost of 1 M {}", unit), .align = Align::right});
    }
    columns.push_back({.title = ""});
    columns.push_back({.title = "strategy"});
    double most = 0;
    for (const SizeRow& row : rows_) most = std::max(most, row.value ? rate_of(row) : 0.0);
    const std::vector<std::size_t> front = this->front();
    Table table(std::move(columns));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const SizeRow& row = rows_[i];
        const bool has = row.value.has_value();
        const bool used_in_part = has && row.throughput.devices < row.devices;
        std::vector<std::string> cells = {
            std::ranges::binary_search(front, i) ? "*" : "",
            row.size.machine,
            row.size.batch ? with_commas(*row.size.batch) : "-",
            used_in_part ? fmt::format("{} of {}", row.throughput.devices, row.devices)
                         : with_commas(row.devices),
            has ? to_text(*row.value) : row.status,
            row.gap ? percent(*row.gap) : "-",
            has ? figure_text(rate_of(row)) : "-",
            has ? figure_text(rate_of(row) / row.devices) : "-",
            has && row.throughput.mfu > 0 ? percent(row.throughput.mfu) : "-",
            has ? to_text(row.memory) : "-"};
        if (priced) cells.push_back(has ? fmt::format("{:.3g}", cost_of(row)) : "-");
        cells.push_back(has ? bar(rate_of(row) / most, terminal.unicode) : "");
        cells.push_back(row.configuration);
        table.add_row(std::move(cells));
    }
    return fmt::format("{}* no other has fewer devices{} and as many {}/s\n\n{}", table.to_text(),
                       priced ? " (costs less an hour)" : "", unit, answers());
}

Json SizeTable::json() const {
    const std::vector<std::size_t> front = this->front();
    Json json = Json::array();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const SizeRow& row = rows_[i];
        const bool priced = row.value && row.price_per_hour > 0;
        json.push_back(
            {{"machine", row.size.machine},
             {"batch", row.size.batch ? Json(*row.size.batch) : Json(nullptr)},
             {"devices", row.devices},
             {"status", row.status},
             {"value_ps", row.value ? Json(row.value->raw()) : Json(nullptr)},
             {"gap", row.gap ? Json(*row.gap) : Json(nullptr)},
             {"throughput", row.value ? throughput_json(row.throughput) : Json(nullptr)},
             {"memory_bytes", row.value ? Json(row.memory.raw()) : Json(nullptr)},
             {"cost_per_million", priced ? Json(cost_of(row)) : Json(nullptr)},
             {"configuration", row.configuration.empty() ? Json(nullptr) : Json(row.configuration)},
             {"on_front", std::ranges::binary_search(front, i)},
             {"best", best() == i}});
    }
    return json;
}

}  // namespace partita::cli
