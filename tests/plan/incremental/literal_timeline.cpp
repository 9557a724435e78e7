// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/incremental/literal_timeline.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

namespace partita::plan {

LiteralTimeline literal_timeline(const PlainGraph& graph, const Csr<std::int32_t>& resource_sets,
                                 const Csr<std::int32_t>& hosts, int resources) {
    LiteralTimeline timeline;
    std::vector<std::int64_t> free(static_cast<std::size_t>(resources), 0);
    std::map<std::int32_t, std::int64_t> launched;
    std::map<Slot, std::int64_t> end;
    while (timeline.order.size() < graph.size()) {
        std::tuple<std::int64_t, std::uint64_t, Slot> best{std::numeric_limits<std::int64_t>::max(),
                                                           0, -1};
        for (const auto& [slot, task] : graph) {
            if (end.contains(slot)) continue;
            std::int64_t start = 0;
            bool ready = true;
            for (const Slot p : task.predecessors) {
                ready = ready && end.contains(p);
                if (ready) start = std::max(start, end.at(p));
            }
            if (!ready) continue;
            for (const std::int32_t r :
                 resource_sets[static_cast<std::size_t>(task.resource_set)]) {
                start = std::max(start, free[static_cast<std::size_t>(r)]);
            }
            for (const std::int32_t d : hosts[static_cast<std::size_t>(task.resource_set)])
                start = std::max(start, launched[d]);
            best = std::min(best, {start, task.key, slot});
        }
        const auto [start, key, slot] = best;
        const PlainTask& task = graph.at(slot);
        end[slot] = start + task.duration;
        for (const std::int32_t r : resource_sets[static_cast<std::size_t>(task.resource_set)]) {
            free[static_cast<std::size_t>(r)] = end[slot];
        }
        for (const std::int32_t d : hosts[static_cast<std::size_t>(task.resource_set)])
            launched[d] += task.launch;
        timeline.order.push_back(slot);
        timeline.start[slot] = start;
        timeline.makespan = std::max(timeline.makespan, end[slot]);
    }
    return timeline;
}

}  // namespace partita::plan
