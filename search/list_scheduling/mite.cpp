// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/mite.h"

#include <algorithm>
#include <vector>

#include "search/list_scheduling/device_loads.h"
#include "search/list_scheduling/traffic.h"

namespace partita::search {

namespace {

constexpr double kLeastImportance = 0.01;

class Mite {
public:
    explicit Mite(const GroupGraph& graph)
        : graph_(graph), loads_(graph), traffic_(graph), bytes_(graph.problem().device_count()) {
        const Time fastest = graph.total_time(graph.devices_by_speed().front());
        for (int d = 0; d < graph.device_count(); ++d) {
            // Speed is the inverse of the time for everything; a graph without work has none.
            const Time total = graph.total_time(d);
            relative_speed_.push_back(total > Time{0} ? fastest / total : 1.0);
            capacity_.push_back(
                static_cast<double>(graph.problem().constraints().memory_capacity(d).raw()));
        }
        for (std::size_t g = 0; g < graph.size(); ++g) {
            largest_rank_ = std::max(largest_rank_, graph.rank(g));
        }
    }

    int place(std::size_t g, const Placement& placement) {
        traffic_.look_at(g, placement);
        int best = -1;
        double best_score = 0;
        for (const int d : graph_.devices(g)) {
            if (!loads_.fits(g, d)) continue;
            const double score = memory(g, d) * importance(g, d) * traffic_.on(d) *
                                 static_cast<double>(loads_.finish(g, d).raw());
            if (best >= 0 && score >= best_score) continue;
            best = d;
            best_score = score;
        }
        if (best < 0) best = loads_.roomiest(g);
        loads_.add(g, best);
        bytes_[static_cast<std::size_t>(best)] += bytes_of(g);
        return best;
    }

private:
    [[nodiscard]] double bytes_of(std::size_t g) const {
        return static_cast<double>((graph_.bytes(g) + graph_.result_bytes(g)).raw());
    }
    [[nodiscard]] double memory(std::size_t g, int device) const {
        const auto d = static_cast<std::size_t>(device);
        return (bytes_[d] + bytes_of(g)) / capacity_[d];
    }
    [[nodiscard]] double importance(std::size_t g, int device) const {
        const double rank = largest_rank_ > Time{0} ? graph_.rank(g) / largest_rank_ : 0.0;
        const double speed = relative_speed_[static_cast<std::size_t>(device)];
        return std::max(kLeastImportance, 1 - rank * speed);
    }

    const GroupGraph& graph_;
    DeviceLoads loads_;
    Traffic traffic_;
    std::vector<double> bytes_;
    std::vector<double> capacity_;
    std::vector<double> relative_speed_;
    Time largest_rank_;
};

}  // namespace

Placement place_multi_objective(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    Mite mite(graph);
    for (std::size_t g = 0; g < graph.size(); ++g) placement[g] = mite.place(g, placement);
    return placement;
}

}  // namespace partita::search
