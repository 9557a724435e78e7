// SPDX-License-Identifier: Apache-2.0
//
// When parameters are fetched that lie in shards and are dropped after each use
// (UpdateConfig::refetch, as in ZeRO-3 and FSDP).
#include <algorithm>
#include <utility>
#include <vector>

#include "plan/lowering/whole_lowering.h"

namespace partita::plan {

using graph::TensorId;

void Lowering::note_fetch(TensorId t, TaskRange tasks) {
    fetches_.push_back({.tensor = t, .tasks = tasks, .readers = {}, .gradient = {}});
}

/// The parts of the op that made the latest fetches.
void Lowering::note_readers(const std::vector<TaskId>& tasks) {
    while (fetches_read_ < fetches_.size()) fetches_[fetches_read_++].readers = tasks;
}

/// Of a parameter with one reader, whose backward was lowered before.
void Lowering::note_gradient(TensorId t, TaskRange tasks) {
    if (graph_.uses(t).size() != 1) return;
    // It may come long after the backward.
    if (problem_.facts().splits_backward(graph_.uses(t)[0].op)) return;
    const auto latest = std::find_if(fetches_.rbegin(), fetches_.rend(),
                                     [&](const Fetch& fetch) { return fetch.tensor == t; });
    if (latest == fetches_.rend() || latest->readers.empty()) return;
    // Not every backward needs the parameter again.
    // What was fetched to recompute a block has the block's other fetches before its gradient.
    if (build_.task(latest->readers[0]).kind == TaskKind::backward) latest->gradient = tasks;
}

/// What each device fetches, op by op in the order in which it runs them.
std::map<int, std::vector<Lowering::FetchStep>> Lowering::fetch_steps() const {
    const bool scheduled = strategy_.policy.schedule.kind != ScheduleKind::none;
    std::map<int, std::vector<FetchStep>> steps;
    for (const Fetch& fetch : fetches_) {
        for (const TaskId reader : fetch.readers) {
            const Task& task = build_.task(reader);
            if (scheduled && task.schedule_key < 0) continue;
            std::vector<FetchStep>& of_device = steps[task.device];
            // All fetches of an op follow each other.
            if (of_device.empty() || of_device.back().reader != reader) {
                of_device.push_back({.reader = reader, .fetches = {}});
            }
            of_device.back().fetches.push_back(&fetch);
        }
    }
    for (auto& [device, of_device] : steps) {
        std::stable_sort(of_device.begin(), of_device.end(), [&](const auto& a, const auto& b) {
            return build_.task(a.reader).schedule_key < build_.task(b.reader).schedule_key;
        });
    }
    return steps;
}

/// Each task of a range under every device that takes part in it.
Lowering::ByDevice Lowering::by_device(TaskRange range) const {
    ByDevice found;
    for (std::size_t i = range.begin; i < range.end; ++i) {
        const TaskId id(i);
        const Task& task = build_.task(id);
        const auto add = [&](int device) {
            if (device >= 0) found.emplace_back(device, id);
        };
        add(task.device);
        add(task.to);
        if (task.kind != TaskKind::collective) continue;
        for (const std::int32_t device : build_.ranks(id)) add(device);
    }
    std::ranges::sort(found);
    const auto rest = std::ranges::unique(found);
    found.erase(rest.begin(), rest.end());
    return found;
}

namespace {

auto of_device(const std::vector<std::pair<int, TaskId>>& entries, int device) {
    return std::ranges::equal_range(entries, device, {}, &std::pair<int, TaskId>::first);
}

}  // namespace

/// Nothing that is fetched depends on anything: without a limit all parameters would be fetched at
/// once, and their gradients wait for the fetches. A device fetches for an op while the op before
/// it runs, no earlier, and when the gradients of the op before these two are gone (as FSDP does).
void Lowering::limit_fetches() {
    std::vector<ByDevice> fetching;
    std::vector<ByDevice> gradients;
    for (const Fetch& fetch : fetches_) {
        fetching.push_back(by_device(fetch.tasks));
        gradients.push_back(by_device(fetch.gradient));
    }
    const auto number = [this](const Fetch* fetch) {
        return static_cast<std::size_t>(fetch - fetches_.data());
    };
    for (const auto& [device, steps] : fetch_steps()) {
        for (std::size_t i = 2; i < steps.size(); ++i) {
            std::vector<TaskId> before{steps[i - 2].reader};
            if (i >= 3) {
                for (const Fetch* gone : steps[i - 3].fetches) {
                    for (const auto& entry : of_device(gradients[number(gone)], device)) {
                        before.push_back(entry.second);
                    }
                }
            }
            for (const Fetch* fetch : steps[i].fetches) {
                for (const auto& entry : of_device(fetching[number(fetch)], device)) {
                    for (const TaskId earlier : before) build_.add_edge(earlier, entry.second);
                }
            }
        }
    }
}

}  // namespace partita::plan
