// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/m_etf.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "search/list_scheduling/device_loads.h"

namespace partita::search {

namespace {

class Etf {
public:
    explicit Etf(const GroupGraph& graph)
        : graph_(graph),
          loads_(graph),
          placement_(graph.size(), -1),
          finish_(graph.size()),
          waiting_(graph.size()),
          pairs_(graph.size(), 0),
          devices_(static_cast<std::size_t>(graph.device_count())) {}

    Placement run() {
        for (std::size_t g = 0; g < graph_.size(); ++g) {
            waiting_[g] = static_cast<std::int32_t>(graph_.incoming(g).size());
        }
        for (std::size_t g = 0; g < graph_.size(); ++g) {
            if (waiting_[g] == 0) release(g);
        }
        for (std::size_t placed = 0; placed < graph_.size(); ++placed) commit_next();
        return std::move(placement_);
    }

private:
    struct Arrival {
        Time ready;
        std::int32_t group = 0;
        bool operator>(const Arrival& other) const {
            return std::tie(ready, group) > std::tie(other.ready, other.group);
        }
    };
    struct Startable {
        Time rank;
        std::int32_t group = 0;
        bool operator<(const Startable& other) const {
            return rank != other.rank ? rank < other.rank : group > other.group;
        }
    };
    struct Device {
        Time free;
        std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arriving;
        std::priority_queue<Startable> startable;
    };
    struct Pair {
        Time start;
        std::int32_t group = -1;
        int device = -1;
    };

    [[nodiscard]] Time arrival(std::size_t g, int device) const {
        Time ready;
        for (const GroupEdge& edge : graph_.incoming(g)) {
            const auto from = static_cast<std::size_t>(edge.group);
            ready =
                std::max(ready, finish_[from] + graph_.copy_time(edge, placement_[from], device));
        }
        return ready;
    }

    void release(std::size_t g) {
        for (const int d : graph_.devices(g)) {
            devices_[static_cast<std::size_t>(d)].arriving.push(
                {arrival(g, d), static_cast<std::int32_t>(g)});
        }
        pairs_[g] = static_cast<std::int32_t>(graph_.devices(g).size());
    }

    /// True when the pair is still to be considered; drops it for good when there is no room.
    bool is_open(std::int32_t group, int device) {
        const auto g = static_cast<std::size_t>(group);
        if (placement_[g] >= 0) return false;
        if (loads_.fits(g, device)) return true;
        if (--pairs_[g] == 0) homeless_.push_back(group);
        return false;
    }

    /// Moves what has arrived, drops what is gone, and returns the device's earliest pair.
    Pair earliest_on(int device) {
        Device& d = devices_[static_cast<std::size_t>(device)];
        while (!d.arriving.empty()) {
            const Arrival next = d.arriving.top();
            if (!is_open(next.group, device)) {
                d.arriving.pop();
            } else if (next.ready <= d.free) {
                d.arriving.pop();
                d.startable.push({graph_.rank(static_cast<std::size_t>(next.group)), next.group});
            } else {
                break;
            }
        }
        while (!d.startable.empty() && !is_open(d.startable.top().group, device)) d.startable.pop();
        if (!d.startable.empty()) return {d.free, d.startable.top().group, device};
        if (!d.arriving.empty()) return {d.arriving.top().ready, d.arriving.top().group, device};
        return {};
    }

    [[nodiscard]] bool before(const Pair& a, const Pair& b) const {
        if (b.group < 0) return a.group >= 0;
        if (a.group < 0 || a.start != b.start) return a.group >= 0 && a.start < b.start;
        const Time rank_a = graph_.rank(static_cast<std::size_t>(a.group));
        const Time rank_b = graph_.rank(static_cast<std::size_t>(b.group));
        if (rank_a != rank_b) return rank_a > rank_b;
        return std::tie(a.group, a.device) < std::tie(b.group, b.device);
    }

    void commit_next() {
        Pair best;
        for (int d = 0; d < graph_.device_count(); ++d) {
            const Pair pair = earliest_on(d);
            if (before(pair, best)) best = pair;
        }
        if (!homeless_.empty()) {
            const auto g = static_cast<std::size_t>(homeless_.back());
            homeless_.pop_back();
            const int device = loads_.roomiest(g);
            const Time free = devices_[static_cast<std::size_t>(device)].free;
            best = {std::max(free, arrival(g, device)), static_cast<std::int32_t>(g), device};
        }
        commit(best);
    }

    void commit(const Pair& pair) {
        const auto g = static_cast<std::size_t>(pair.group);
        placement_[g] = pair.device;
        loads_.add(g, pair.device);
        finish_[g] = pair.start + graph_.time(g, pair.device);
        devices_[static_cast<std::size_t>(pair.device)].free = finish_[g];
        for (const GroupEdge& edge : graph_.outgoing(g)) {
            const auto next = static_cast<std::size_t>(edge.group);
            if (--waiting_[next] == 0) release(next);
        }
    }

    const GroupGraph& graph_;
    DeviceLoads loads_;
    Placement placement_;
    std::vector<Time> finish_;
    std::vector<std::int32_t> waiting_;   ///< edges from groups not placed yet
    std::vector<std::int32_t> pairs_;     ///< devices still open to a released group
    std::vector<std::int32_t> homeless_;  ///< released groups without any
    std::vector<Device> devices_;
};

}  // namespace

Placement place_m_etf(const GroupGraph& graph) {
    return Etf(graph).run();
}

}  // namespace partita::search
