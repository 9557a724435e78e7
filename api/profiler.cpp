// SPDX-License-Identifier: Apache-2.0
#include "api/profiler.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cost/host.h"
#include "plan/task_works.h"

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

/// CPU devices share the host's memory, whatever the plan grants each.
bool fits_host(const plan::Problem& problem, const plan::Evaluation& evaluation) {
    Bytes needed{0};
    for (std::size_t d = 0; d < evaluation.devices.size(); ++d) {
        const bool cpu =
            problem.machine().device(static_cast<int>(d)).kind == cost::DeviceKind::cpu;
        if (cpu) needed += evaluation.devices[d].memory;
    }
    return needed <= cost::host_limits().memory;
}

}  // namespace

void Profiler::measure(const plan::Problem& problem,
                       const std::vector<plan::Strategy>& strategies) {
    for (std::size_t i = 0; i < strategies.size() && !report_.interrupted; ++i) {
        if (options_.progress) {
            options_.progress(static_cast<double>(i) / static_cast<double>(strategies.size()),
                              fmt::format("run {} of {}", i + 1, strategies.size()));
        }
        measure(problem, strategies[i], price_anew(problem, strategies[i], plan::Scheduler::pct));
    }
}

void Profiler::measure(const plan::Problem& problem, const plan::Strategy& strategy,
                       const Priced& priced) {
    if (options_.cancelled != nullptr && *options_.cancelled) {
        report_.interrupted = true;
        return;
    }
    if (!options_.repeat && is_known(problem, strategy, priced.tasks)) {
        ++report_.known_runs;
        return;
    }
    if (!fits_host(problem, priced.evaluation)) {
        ++report_.large_runs;
        return;
    }
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
    keep(measured_rows({problem, strategy, priced.tasks, result}, runtime_.versions(), now()));
}

bool Profiler::is_known(const plan::Problem& problem, const plan::Strategy& strategy,
                        const plan::TaskGraph& tasks) {
    const runtime::Hardware hardware = runtime_.hardware(options_.devices, problem.machine());
    const plan::TaskWorks works(problem, strategy, tasks);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const auto task = static_cast<plan::TaskId>(t);
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

void Profiler::keep(std::vector<cost::DeviceProfile> rows) {
    add_rows(database_, rows);
    for (cost::DeviceProfile& device : rows) {
        add_texts(device, known(device.device));
        report_.rows.push_back(std::move(device));
    }
}

}  // namespace partita::api
