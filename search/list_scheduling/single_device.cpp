// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/single_device.h"

#include <algorithm>
#include <utility>

#include "search/core/engine.h"

namespace partita::search {

namespace {

/// With fixed ops every device makes another plan; more than this many are not worth the time.
constexpr std::size_t kMostCandidates = 16;

bool anything_fixed(const GroupGraph& graph) {
    const auto& allowed = graph.groups().allowed;
    return std::any_of(allowed.begin(), allowed.end(), [](int set) { return set != 0; });
}

}  // namespace

std::vector<int> single_device_candidates(const GroupGraph& graph) {
    std::vector<int> candidates;
    const plan::Problem& problem = graph.problem();
    const bool fixed = anything_fixed(graph);
    for (const int d : graph.devices_by_speed()) {
        const auto same = [&](int other) {
            return problem.prices().device_class(other) == problem.prices().device_class(d) &&
                   problem.constraints().memory_capacity(other) ==
                       problem.constraints().memory_capacity(d);
        };
        if (!fixed && std::any_of(candidates.begin(), candidates.end(), same)) continue;
        candidates.push_back(d);
        if (candidates.size() == kMostCandidates) break;
    }
    return candidates;
}

Placement place_on(const GroupGraph& graph, int device) {
    Placement placement(graph.size(), device);
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const std::vector<int>& allowed = graph.devices(g);
        if (std::binary_search(allowed.begin(), allowed.end(), device)) continue;
        placement[g] = *std::min_element(allowed.begin(), allowed.end(), [&](int a, int b) {
            return graph.time(g, a) < graph.time(g, b);
        });
    }
    return placement;
}

Status SingleDevice::step(Engine& engine) {
    const GroupGraph& graph = engine.groups();
    if (!std::exchange(started_, true)) candidates_ = single_device_candidates(graph);
    // Without fixed ops the first that fits is the best; with them all candidates are priced.
    const bool first_is_best = !anything_fixed(graph);
    while (next_ < candidates_.size()) {
        const int device = candidates_[next_++];
        const Bytes capacity = graph.problem().constraints().memory_capacity(device);
        if (first_is_best && too_small_ && capacity <= *too_small_) continue;
        const auto evaluation = engine.evaluate(graph.strategy(place_on(graph, device)));
        if (!evaluation) break;
        if (!evaluation->feasible()) too_small_ = std::max(too_small_.value_or(Bytes{0}), capacity);
        if (first_is_best && evaluation->feasible()) return Status::found;
        return Status::in_progress;
    }
    return Status::found;
}

}  // namespace partita::search
