// SPDX-License-Identifier: Apache-2.0
//
// When parameters are fetched that lie in shards and are dropped after each use
// (UpdateConfig::refetch, as in ZeRO-3 and FSDP).
#include <algorithm>

#include "plan/lowering.h"

namespace partita::plan {

using graph::TensorId;

/// The parts of the op that made the latest fetches.
void Lowering::note_readers(const std::vector<TaskId>& tasks) {
    while (fetches_read_ < fetches_.size()) fetches_[fetches_read_++].readers = tasks;
}

/// Of a parameter with one reader, whose backward was lowered before.
void Lowering::note_gradient(TensorId t, TaskRange tasks) {
    if (graph_.uses(t).size() != 1) return;
    const auto latest = std::find_if(fetches_.rbegin(), fetches_.rend(),
                                     [&](const Fetch& fetch) { return fetch.tensor == t; });
    if (latest == fetches_.rend() || latest->readers.empty()) return;
    // Not every backward needs the parameter again.
    if (build_.task(latest->readers[0]).kind == TaskKind::backward) latest->gradient = tasks;
}

/// Nothing that is fetched depends on anything: without a limit all parameters would be fetched at
/// once, and their gradients wait for the fetches. A device fetches for an op while the op before it
/// runs, no earlier, and when the gradients of the op before these two are gone (as FSDP does).
void Lowering::limit_fetches() {
    const bool scheduled = strategy_.policy.schedule.kind != ScheduleKind::none;
    const auto concerns = [&](TaskId id, int device) {
        const Task& task = build_.task(id);
        return task.device == device || task.to == device || build_.has_rank(id, device);
    };
    struct Use {
        const Fetch* fetch;
        TaskId reader;
    };
    std::map<int, std::vector<Use>> uses;  // by device
    for (const Fetch& fetch : fetches_) {
        for (const TaskId reader : fetch.readers) {
            const Task& task = build_.task(reader);
            if (!scheduled || task.turn >= 0) uses[task.device].push_back({&fetch, reader});
        }
    }
    for (auto& [device, list] : uses) {
        std::stable_sort(list.begin(), list.end(), [&](const Use& a, const Use& b) {
            return build_.task(a.reader).turn < build_.task(b.reader).turn;
        });
        std::vector<const Use*> before;  // one per op, though it may make several fetches
        for (const Use& use : list) {
            if (before.empty() || before.back()->reader != use.reader) before.push_back(&use);
            const std::size_t count = before.size();
            for (TaskId id = use.fetch->tasks.begin; id < use.fetch->tasks.end; ++id) {
                if (!concerns(id, device)) continue;
                if (count >= 3) build_.add_edge(before[count - 3]->reader, id);
                if (count < 4) continue;
                const TaskRange& gradient = before[count - 4]->fetch->gradient;
                for (TaskId done = gradient.begin; done < gradient.end; ++done) {
                    if (concerns(done, device)) build_.add_edge(done, id);
                }
            }
        }
    }
}

}  // namespace partita::plan
