// SPDX-License-Identifier: Apache-2.0
#include "api/imported_times.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/framework.h"
#include "api/impl.h"
#include "api/option_table.h"
#include "api/plan_options.h"
#include "api/request.h"
#include "base/error.h"
#include "base/files.h"
#include "cost/profile/profile_database.h"
#include "cost/traces/csv_table.h"
#include "plan/lowering/lower.h"
#include "plan/tasks/task_measurements.h"
#include "search/profiling/covering_strategies.h"

namespace partita::api {

namespace {

using Finding = cost::TracedWorks::Finding;

constexpr std::string_view kWork = "work";
constexpr std::string_view kTime = "time_us";
constexpr double kPicosecondsPerMicrosecond = 1e6;

cost::DeviceKey only_key(const cost::Machine& machine) {
    const cost::Device& first = machine.device(0);
    for (const cost::Device& device : machine.devices()) {
        if (cost::device_key(device) == cost::device_key(first)) continue;
        throw UsageError(
            fmt::format("--machine {}: has {} and {}, and times are of one of them. Give a machine "
                        "of that alone, a preset or a file.",
                        machine.name(), first.model, device.model));
    }
    return cost::device_key(first);
}

cost::MeasuredTransfer measured_row(const TransferTime& transfer, const std::string& date) {
    cost::MeasuredTransfer row{.copy = transfer.kind == "copy",
                               .ranks = transfer.ranks,
                               .bytes = transfer.bytes,
                               .variant = "given"};
    bool known = row.copy;
    for (int i = 0; i < cost::kCollectiveCount && !known; ++i) {
        row.kind = static_cast<cost::Collective>(i);
        known = cost::name_of(row.kind) == transfer.kind;
    }
    if (!known) {
        throw UsageError(
            fmt::format("transfer '{}': unknown. Say copy, all-reduce, all-gather, "
                        "reduce-scatter, all-to-all, broadcast, reduce, scatter or "
                        "gather.",
                        transfer.kind));
    }
    const bool fits = transfer.ranks == 2 || (transfer.ranks > 2 && !row.copy);
    if (!fits || transfer.bytes <= Bytes{} || transfer.time <= Time{}) {
        throw UsageError(fmt::format(
            "{} among {} ranks, {} in {}: expected at least 2 ranks (of a copy 2), and bytes and "
            "time > 0.",
            transfer.kind, transfer.ranks, to_text(transfer.bytes), to_text(transfer.time)));
    }
    row.time.median = row.time.lower = row.time.upper = transfer.time;
    row.time.date = date;
    row.time.versions = "given";
    return row;
}

/// Row by row as --export-works wrote it.
ImportedTimes read_works(const cost::CsvTable& table, std::span<const cost::MeasuredWork> wanted) {
    std::map<std::string_view, std::size_t> by_text;
    for (std::size_t i = 0; i < wanted.size(); ++i) by_text.emplace(wanted[i].signature.text, i);
    ImportedTimes imported;
    imported.traced.findings.assign(wanted.size(), Finding::not_called);
    for (std::size_t row = 0; row < table.size(); ++row) {
        if (table.text(row, kTime).empty()) continue;
        const Time time = time_from_milliseconds(1e-3 * table.number(row, kTime));
        if (time <= Time{}) table.fail(row, "time_us: expected a number > 0");
        const auto found = by_text.find(table.text(row, kWork));
        if (found == by_text.end()) {
            ++imported.unknown;
            continue;
        }
        if (imported.traced.findings[found->second] == Finding::found) {
            table.fail(row, "the same work as in a line before");
        }
        imported.traced.findings[found->second] = Finding::found;
        cost::MeasuredWork work = wanted[found->second];
        work.time.median = work.time.lower = work.time.upper = time;
        imported.traced.rows.push_back(std::move(work));
    }
    return imported;
}

std::string_view reason_of(Finding finding) {
    switch (finding) {
    case Finding::found: return "found";
    case Finding::not_called: return "not in the file";
    case Finding::ambiguous: return "several alike";
    case Finding::no_rule: return "no operator known";
    }
    return {};
}

/// Of the works of a step.
void add_works(ImportReport& report, const WantedWorks& wanted, const cost::TracedWorks& traced) {
    std::size_t row = 0;  // of what was found
    for (std::size_t i = 0; i < wanted.works.size(); ++i) {
        const WantedWork& work = wanted.works[i];
        const bool found = traced.findings[i] == Finding::found;
        const std::size_t own = row;
        if (found) ++row;
        if (work.tasks == 0) continue;
        const Time predicted = work.tasks * work.predicted;
        ++report.works;
        report.predicted += predicted;
        if (found) {
            ++report.found;
            report.predicted_found += predicted;
            report.measured_found += work.tasks * traced.rows[own].time.median;
        } else {
            report.missing.push_back({.work = work.work.signature.text,
                                      .tasks = work.tasks,
                                      .predicted = predicted,
                                      .why = std::string(reason_of(traced.findings[i]))});
        }
    }
    std::ranges::stable_sort(report.missing, std::greater{}, &ImportReport::Missing::predicted);
}

void add_unused(ImportReport& report, const ImportedTimes& imported) {
    const auto& calls = imported.times.calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        if (imported.traced.used[i] != 0) continue;
        Time sum;
        for (const Time time : calls[i].times) sum += time;
        report.unused.push_back(
            {.call = text_of(calls[i]), .calls = std::ssize(calls[i].times), .time = sum});
    }
    std::ranges::stable_sort(report.unused, std::greater{}, &ImportReport::Unused::time);
}

bool is_works_table(std::string_view text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    return line.find(kTime) != std::string_view::npos && line.find('{') == std::string_view::npos;
}

}  // namespace

WantedWorks wanted_works(const plan::Problem& problem, std::span<const plan::Strategy> strategies) {
    WantedWorks wanted{.device = only_key(problem.machine()), .works = {}};
    std::map<std::string, std::size_t> by_text;
    for (std::size_t s = 0; s < strategies.size(); ++s) {
        const plan::TaskGraph tasks = plan::lower(problem, strategies[s]);
        const plan::TaskMeasurements works(problem, strategies[s], tasks);
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            auto work = works.work(plan::TaskId(t), {});
            if (!work || tasks.tasks[t].duration == Time{}) continue;
            const auto [at, is_new] =
                by_text.try_emplace(work->signature.text, wanted.works.size());
            if (is_new) {
                wanted.works.push_back(
                    {.work = std::move(*work), .predicted = tasks.tasks[t].duration, .tasks = 0});
            }
            if (s == 0) ++wanted.works[at->second].tasks;
        }
    }
    return wanted;
}

std::string works_table(const WantedWorks& wanted) {
    std::string text = "device,work,flops,bytes,tasks,predicted_us,time_us\n";
    const std::string device = cost::csv_field(wanted.device.model);
    for (const WantedWork& each : wanted.works) {
        text += fmt::format(
            "{},{},{:.0f},{},{},{:.3f},\n", device, cost::csv_field(each.work.signature.text),
            static_cast<double>(each.work.flops.raw()), each.work.bytes.raw(), each.tasks,
            static_cast<double>(each.predicted.raw()) / kPicosecondsPerMicrosecond);
    }
    return text;
}

ImportedTimes import_times(const std::filesystem::path& file, const WantedWorks& wanted,
                           std::int64_t seconds) {
    std::vector<cost::MeasuredWork> works;
    for (const WantedWork& each : wanted.works) {
        works.push_back(each.work);
        works.back().time.date = cost::utc_date(seconds);
        works.back().time.versions = file.filename().string();
    }
    const std::string text = read_text_file(file);
    if (is_works_table(text)) {
        const cost::CsvTable table(text, kTime, file.string());
        if (!table.has(kWork)) {
            throw InputError(fmt::format("{}: no column '{}'", file.string(), kWork));
        }
        return read_works(table, works);
    }
    ImportedTimes imported;
    imported.times = cost::read_operator_times(text, file.string());
    imported.traced = cost::traced_works(works, imported.times);
    return imported;
}

ImportReport add_to(const std::filesystem::path& database, const std::filesystem::path& file,
                    const WantedWorks& wanted, const ImportedTimes& imported) {
    if (imported.traced.rows.empty()) {
        throw MismatchError(fmt::format(
            "{}: has no time of what this model does. Give the trace of that model, of the same "
            "shapes, element types and mode; `partita profile --export-works` writes what is "
            "looked for.",
            file.string()));
    }
    cost::ProfileDatabase::create(database).add(wanted.device, imported.traced.rows);
    ImportReport report{.device = wanted.device.model,
                        .measured_on = imported.times.device,
                        .operators = std::ssize(imported.times.calls),
                        .rows = std::ssize(imported.traced.rows),
                        .unknown = imported.unknown};
    add_works(report, wanted, imported.traced);
    add_unused(report, imported);
    return report;
}

}  // namespace partita::api

namespace partita {

namespace {

api::WantedWorks wanted_works(const Model& model, const Machine& machine,
                              const PlanOptions& given) {
    api::check_options(given);
    const PlanOptions options = api::with_framework(given);
    const cost::Machine& hardware = machine.impl().machine;
    const plan::Problem problem =
        api::make_problem(model.impl().loaded, hardware,
                          api::problem_options(options, model.impl().loaded, hardware));
    return api::wanted_works(problem, search::covering_strategies(problem));
}

}  // namespace

ImportReport import_times(const Model& model, const Machine& machine, const PlanOptions& options,
                          const std::filesystem::path& file,
                          const std::filesystem::path& database) {
    const api::WantedWorks wanted = wanted_works(model, machine, options);
    return api::add_to(database, file, wanted, api::import_times(file, wanted, std::time(nullptr)));
}

ImportReport write_costs(const Model& model, const Machine& machine, const PlanOptions& options,
                         const WorkCosts& costs, const std::filesystem::path& database) {
    const api::WantedWorks wanted = wanted_works(model, machine, options);
    const std::string today = cost::utc_date(std::time(nullptr));
    api::ImportedTimes imported;
    for (const api::WantedWork& each : wanted.works) {
        const std::string& text = each.work.signature.text;
        const std::optional<Time> time = costs({.text = text,
                                                .flops = static_cast<double>(each.work.flops.raw()),
                                                .bytes = each.work.bytes,
                                                .predicted = each.predicted});
        imported.traced.findings.push_back(time ? api::Finding::found : api::Finding::not_called);
        if (!time) continue;
        if (*time <= Time{}) {
            throw UsageError(
                fmt::format("cost of '{}': expected a time > 0, got {}. Say nothing where "
                            "it is not known.",
                            text, to_text(*time)));
        }
        cost::MeasuredWork work = each.work;
        work.time.median = work.time.lower = work.time.upper = *time;
        work.time.date = today;
        work.time.versions = "given";
        imported.traced.rows.push_back(std::move(work));
    }
    if (imported.traced.rows.empty()) {
        throw UsageError(
            "costs: of no work the function says what it takes. Return a time for some.");
    }
    return api::add_to(database, "costs", wanted, imported);
}

void write_transfers(const Machine& machine, std::span<const TransferTime> transfers,
                     const std::filesystem::path& database) {
    const cost::DeviceKey device = api::only_key(machine.impl().machine);
    const std::string today = cost::utc_date(std::time(nullptr));
    std::vector<cost::MeasuredTransfer> rows;
    for (const TransferTime& each : transfers) rows.push_back(api::measured_row(each, today));
    cost::ProfileDatabase::create(database).add(device, rows);
}

}  // namespace partita
