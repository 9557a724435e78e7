// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/local/neighbourhoods.h"

#include <algorithm>
#include <array>
#include <utility>

#include "search/max_load/branch_and_bound/load_tree.h"
#include "search/max_load/model/load_part.h"

namespace partita::search {

namespace {

/// At a time, whatever the number of threads.
constexpr std::size_t kBatch = 4;

/// Of the tree between two looks at the clock.
constexpr std::int64_t kOperations = 10'000'000;

/// A success takes at least one of so many shares of the load away, so that successes end.
constexpr std::int64_t kShares = 1'000'000;

/// Devices, the least busy ones, that the busiest shares with.
constexpr std::size_t kMostOthers = 8;

/// Larger neighbourhoods are left out.
constexpr std::size_t kMostVertices = 1'000;

}  // namespace

LoadNeighbourhoods::LoadNeighbourhoods(const LoadProblem& problem, std::int64_t operations)
    : problem_(problem), operations_(operations), state_(problem.graph, problem.devices) {}

void LoadNeighbourhoods::begin(std::span<const std::int32_t> start) {
    state_.assign(start);
    successes_ = 0;
    list();
}

/// The busiest device with one other, then with two, the least busy first: they have the most room.
void LoadNeighbourhoods::list() {
    std::vector<std::size_t> devices(problem_.devices.size());
    for (std::size_t d = 0; d < devices.size(); ++d) devices[d] = d;
    std::ranges::stable_sort(devices, {}, [&](std::size_t d) { return state_.load(d); });
    neighbourhoods_.clear();
    next_ = 0;
    if (devices.size() < 2) return;
    const std::size_t busiest = devices.back();
    devices.pop_back();
    if (devices.size() > kMostOthers) devices.resize(kMostOthers);
    for (const std::size_t other : devices) neighbourhoods_.push_back({busiest, other});
    for (std::size_t j = 1; j < devices.size(); ++j) {
        for (std::size_t i = 0; i < j; ++i) {
            neighbourhoods_.push_back({busiest, devices[i], devices[j]});
        }
    }
    for (Neighbourhood& of : neighbourhoods_) std::ranges::sort(of);
}

void LoadNeighbourhoods::advance(const Parallel& parallel, const std::function<bool()>& stopped) {
    const std::size_t count = std::min(kBatch, neighbourhoods_.size() - next_);
    std::array<std::vector<std::int32_t>, kBatch> better;
    parallel(count,
             [&](std::size_t i) { better[i] = improve(neighbourhoods_[next_ + i], stopped); });
    next_ += count;
    const auto found = std::ranges::find_if(better, [](const auto& of) { return !of.empty(); });
    if (found == better.end()) return;
    state_.assign(*found);
    ++successes_;
    list();
}

/// The whole assignment after a success; empty: none.
std::vector<std::int32_t> LoadNeighbourhoods::improve(const Neighbourhood& devices,
                                                      const std::function<bool()>& stopped) const {
    const LoadPart part = make_load_part(problem_, state_.device_of(), devices);
    if (part.vertices.size() > kMostVertices) return {};
    LoadTree tree(part.problem);
    const std::int64_t load = state_.score().load;  // of the busiest, which is one of them
    tree.look_below(load - load / kShares);
    std::int64_t left = operations_;
    while (!tree.advance(std::min(left, kOperations))) {
        left -= kOperations;
        if (left <= 0 || stopped()) return {};
    }
    if (!tree.solution()) return {};
    std::vector<std::int32_t> device_of = state_.device_of();
    for (std::size_t i = 0; i < part.vertices.size(); ++i) {
        const auto place = static_cast<std::size_t>((*tree.solution())[i]);
        device_of[static_cast<std::size_t>(part.vertices[i])] =
            static_cast<std::int32_t>(part.devices[place]);
    }
    return device_of;
}

}  // namespace partita::search
