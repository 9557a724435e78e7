// SPDX-License-Identifier: Apache-2.0
#include "api/profiler.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "plan/tasks/task_measurements.h"

namespace partita::api {
namespace {

std::int64_t now() {
    using namespace std::chrono;
    return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

/// What tells it from other transfers.
std::string text_of(const cost::MeasuredTransfer& row) {
    return fmt::format("{} {} ranks {} nodes {} bytes {} {}", row.copy ? "copy" : name_of(row.kind),
                       row.ranks, row.nodes, row.bytes.raw(), name_of(row.dtype), row.variant);
}

void add_texts(const cost::DeviceProfile& rows, std::set<std::string>& texts) {
    for (const cost::MeasuredWork& row : rows.works) texts.insert(row.signature.text);
    for (const cost::MeasuredTransfer& row : rows.transfers) texts.insert(text_of(row));
}

}  // namespace

void Profiler::measure(const plan::Problem& problem,
                       const std::vector<plan::Strategy>& strategies) {
    const std::size_t first = runs_;
    runs_ += strategies.size();
    std::vector<char> wanted(strategies.size(), 0);
    const auto rounds = static_cast<std::size_t>(options_.rounds);
    for (std::size_t i = 0; i < rounds * strategies.size(); ++i) {
        const std::size_t at = i % strategies.size();
        if (i >= strategies.size() && wanted[at] == 0) continue;
        if (!goes_on()) return;
        if (options_.progress) {
            options_.progress(
                static_cast<double>(i) / static_cast<double>(rounds * strategies.size()),
                fmt::format("run {} of {}", i + 1, rounds * strategies.size()));
        }
        const plan::Priced priced =
            plan::price(problem, strategies[at], plan::Scheduler::pct, plan::Listed::all);
        if (i < strategies.size() && !is_wanted(problem, strategies[at], priced)) continue;
        wanted[at] = 1;
        run(first + at, problem, strategies[at], priced);
    }
}

void Profiler::measure(const plan::Problem& problem, const plan::Strategy& strategy,
                       const plan::Priced& priced) {
    const std::size_t number = runs_++;
    if (!is_wanted(problem, strategy, priced)) return;
    for (int round = 0; round < options_.rounds && goes_on(); ++round) {
        run(number, problem, strategy, priced);
    }
}

bool Profiler::goes_on() {
    if (options_.cancelled != nullptr && *options_.cancelled) report_.interrupted = true;
    return !report_.interrupted;
}

bool Profiler::is_wanted(const plan::Problem& problem, const plan::Strategy& strategy,
                         const plan::Priced& priced) {
    if (!options_.repeat && is_known(problem, strategy, priced.tasks)) {
        ++report_.known_runs;
        return false;
    }
    if (!fits_host(problem, priced.evaluation)) {
        ++report_.large_runs;
        return false;
    }
    return true;
}

void Profiler::run(std::size_t number, const plan::Problem& problem, const plan::Strategy& strategy,
                   const plan::Priced& priced) {
    const runtime::ExecuteResult result = runtime_.execute({.problem = &problem,
                                                            .strategy = &strategy,
                                                            .tasks = &priced.tasks,
                                                            .order = priced.timeline->commit_order,
                                                            .devices = options_.devices,
                                                            .sources = options_.sources,
                                                            .warmup = options_.warmup,
                                                            .iterations = options_.iterations,
                                                            .until_stable = true,
                                                            .learning_rate = {},
                                                            .expected = {}});
    ++report_.runs;
    keep(number,
         measured_rows({problem, strategy, priced.tasks, result}, runtime_.versions(), now()));
}

bool Profiler::is_known(const plan::Problem& problem, const plan::Strategy& strategy,
                        const plan::TaskGraph& tasks) {
    const runtime::Hardware hardware = runtime_.hardware(options_.devices, problem.machine());
    const plan::TaskMeasurements works(problem, strategy, tasks);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const plan::TaskId task(t);
        std::string text;
        if (const auto work = works.work(task, {})) {
            text = work->signature.text;
        } else if (const auto moved = works.transfer(task, {}, hardware.transport)) {
            if (hardware.is_own) text = text_of(*moved);
        }
        if (text.empty()) continue;
        if (!known(works.device(task, hardware.threads)).contains(text)) return false;
    }
    return true;
}

std::set<std::string>& Profiler::known(const cost::DeviceKey& device) {
    const auto [at, is_new] = known_.try_emplace(device);
    if (is_new) add_texts(database_.read(device), at->second);
    return at->second;
}

namespace {

/// Of each row what all that was seen of it says.
template <class Row, class Seen, class Text>
void pool(std::size_t number, std::vector<Row>& rows, std::map<std::string, Seen>& seen,
          const Text& text) {
    for (Row& row : rows) {
        Seen& of = seen[text(row)];
        const auto [time, is_new] = of.times.try_emplace(number, row.time);
        if (!is_new && row.time.median < time->second.median) time->second = row.time;
        std::vector<cost::Measurement> all;
        for (const auto& [run, measured] : of.times) all.push_back(measured);
        const std::string date = row.time.date;
        row.time = pooled(std::move(all));
        row.time.date = date;
        of.row = row;
    }
}

}  // namespace

void Profiler::keep(std::size_t number, std::vector<cost::DeviceProfile> rows) {
    for (cost::DeviceProfile& device : rows) {
        SeenRows& seen = seen_[device.device];
        pool(number, device.works, seen.works,
             [](const cost::MeasuredWork& row) { return row.signature.text; });
        pool(number, device.transfers, seen.transfers, text_of);
        add_texts(device, known(device.device));
    }
    add_rows(database_, rows);
}

ProfileReport Profiler::report() const {
    ProfileReport report = report_;
    for (const auto& [device, seen] : seen_) {
        cost::DeviceProfile& rows = report.rows.emplace_back();
        rows.device = device;
        for (const auto& [text, of] : seen.works) rows.works.push_back(of.row);
        for (const auto& [text, of] : seen.transfers) rows.transfers.push_back(of.row);
    }
    return report;
}

}  // namespace partita::api
