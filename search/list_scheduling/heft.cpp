// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/heft.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "search/list_scheduling/device_loads.h"

namespace partita::search {

namespace {

struct Gap {
    Time begin;
    Time end;
};

/// When one device is busy: idle gaps, rising, then everything free from `end` on.
class Calendar {
public:
    /// The earliest start >= ready with `length` of idle time behind it.
    [[nodiscard]] Time earliest(Time ready, Time length) const {
        for (auto gap = first_after(ready); gap != gaps_.end(); ++gap) {
            const Time start = std::max(gap->begin, ready);
            if (start + length <= gap->end) return start;
        }
        return std::max(end_, ready);
    }

    void reserve(Time start, Time length) {
        if (start >= end_) {
            if (start > end_) gaps_.push_back({end_, start});
            if (gaps_.size() > kMaxGaps) gaps_.erase(gaps_.begin());
            end_ = start + length;
            return;
        }
        const auto at = gaps_.begin() + (first_after(start) - gaps_.cbegin());
        const Gap before{at->begin, start};
        const Gap after{start + length, at->end};
        *at = after;
        if (after.begin == after.end) {
            *at = before;
        } else if (before.begin != before.end) {
            gaps_.insert(at, before);
        }
        std::erase_if(gaps_, [](const Gap& gap) { return gap.begin == gap.end; });
    }

private:
    /// The first gap that ends after `time`.
    [[nodiscard]] std::vector<Gap>::const_iterator first_after(Time time) const {
        return std::partition_point(gaps_.begin(), gaps_.end(),
                                    [&](const Gap& gap) { return gap.end <= time; });
    }

    std::vector<Gap> gaps_;
    Time end_;
};

}  // namespace

Placement place_heft(const GroupGraph& graph) {
    std::vector<std::size_t> order(graph.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Equal ranks: by number, which is topological, so that predecessors of no work come first.
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return graph.rank(a) > graph.rank(b); });
    Placement placement(graph.size(), -1);
    std::vector<Time> finish(graph.size());
    std::vector<Calendar> calendars(static_cast<std::size_t>(graph.device_count()));
    DeviceLoads loads(graph);

    const auto start_on = [&](std::size_t g, int device) {
        Time ready;
        for (const GroupEdge& edge : graph.incoming(g)) {
            const auto from = static_cast<std::size_t>(edge.group);
            ready = std::max(ready, finish[from] + graph.copy_time(edge, placement[from], device));
        }
        return calendars[static_cast<std::size_t>(device)].earliest(ready, graph.time(g, device));
    };
    for (const std::size_t g : order) {
        int best = -1;
        Time best_start;
        for (const int d : graph.devices(g)) {
            if (!loads.fits(g, d)) continue;
            const Time start = start_on(g, d);
            if (best >= 0 && start + graph.time(g, d) >= finish[g]) continue;
            best = d;
            best_start = start;
            finish[g] = start + graph.time(g, d);
        }
        if (best < 0) {
            best = loads.roomiest(g);
            best_start = start_on(g, best);
            finish[g] = best_start + graph.time(g, best);
        }
        placement[g] = best;
        loads.add(g, best);
        calendars[static_cast<std::size_t>(best)].reserve(best_start, graph.time(g, best));
    }
    return placement;
}

}  // namespace partita::search
