// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/scatter_gather.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace partita::plan {

using cost::Machine;
using graph::Region;

namespace {

/// Each in one piece of memory; empty: there are none.
std::vector<Region> contiguous_slices(const Region& region, std::int64_t count) {
    std::vector<Region> slices{region};
    for (std::size_t d = 0; d < region.dims.size(); ++d) {
        const std::int64_t left = count / std::ssize(slices);
        const std::int64_t extent = graph::count(region.dims[d]);
        const bool is_split_up = left % extent == 0;
        if (!is_split_up && extent % left != 0) return {};
        const std::int64_t degree = is_split_up ? extent : left;
        std::vector<Region> finer;
        for (const Region& slice : slices) {
            for (std::int64_t i = 0; i < degree; ++i) {
                finer.push_back(slice);
                finer.back().dims[d] = graph::part_of(region.dims[d], degree, i);
            }
        }
        slices = std::move(finer);
    }
    if (std::ssize(slices) != count) slices.clear();
    return slices;
}

}  // namespace

std::vector<Region> slices_of(const Region& region, std::int64_t count) {
    std::vector<Region> slices = contiguous_slices(region, count);
    const auto dim = std::ranges::find_if(region.dims, [&](const graph::Positions& positions) {
        return graph::count(positions) % count == 0;
    });
    if (!slices.empty() || dim == region.dims.end()) return slices;
    const auto d = static_cast<std::size_t>(dim - region.dims.begin());
    slices.assign(static_cast<std::size_t>(count), region);
    for (std::int64_t i = 0; i < count; ++i) {
        slices[static_cast<std::size_t>(i)].dims[d] = graph::part_of(*dim, count, i);
    }
    return slices;
}

void ScatterGather::find_groups(const Layout& to) {
    by_region_.clear();
    for (std::size_t t = 0; t < to.pieces.size(); ++t) {
        if (to.pieces[t].region < 0) continue;
        by_region_.emplace_back(to.pieces[t].region, static_cast<std::int32_t>(t));
    }
    std::ranges::sort(by_region_);
    groups_.clear();
    for (std::size_t i = 0; i < by_region_.size(); ++i) {
        const std::int32_t region = by_region_[i].first;
        if (groups_.empty() || groups_.back().region != region) groups_.push_back({region, i, i});
        groups_.back().end = i + 1;
    }
}

/// All of it is needed on one node, and none of it is there.
bool ScatterGather::enters_a_node(const Group& group, const LayoutPair& pair,
                                  const ReshardNeeds& needs, const Machine& machine) const {
    const auto node_of = [&](const Piece& piece) { return machine.device(piece.device).node; };
    const int node = node_of(pair.target(by_region_[group.begin].second));
    for (std::size_t i = group.begin; i < group.end; ++i) {
        const std::int32_t target = by_region_[i].second;
        if (node_of(pair.target(target)) != node) return false;
        for (const Need need : needs[target]) {
            if (node_of(pair.source(need.source)) == node) return false;
        }
    }
    return true;
}

/// Sent in slices and gathered from one device after the other, as in a ring, or whole?
bool ScatterGather::pays(const Group& group, const LayoutPair& pair, const ReshardNeeds& needs,
                         const RegionTable& regions, const Machine& machine) const {
    constexpr std::int64_t kBytes = 2;
    const auto device = [&](std::size_t i) {
        return pair.target(by_region_[group.begin + i].second).device;
    };
    const NeedList first = needs[by_region_[group.begin].second];
    if (first.empty()) return false;
    const int source = pair.source(first[0].source).device;
    const auto count = static_cast<std::int64_t>(group.size());
    const Bytes whole(kBytes * regions.volume(group.region));
    const Bytes slice(whole.raw() / count);
    return machine.copy_time(source, device(0), slice) +
               (count - 1) * machine.copy_time(device(0), device(1), slice) <
           machine.copy_time(source, device(0), whole);
}

/// Each takes all of it from another device.
bool ScatterGather::add_slices_at_sources(const Group& group, const LayoutPair& pair,
                                          const ReshardNeeds& needs, RegionTable& regions,
                                          Layout& through) const {
    std::vector<int> devices;
    for (std::size_t i = group.begin; i < group.end; ++i) {
        const NeedList of = needs[by_region_[i].second];
        if (of.size() != 1 || pair.source(of[0].source).region != group.region) return false;
        devices.push_back(pair.source(of[0].source).device);
    }
    const Region whole = regions[group.region];
    const std::vector<Region> slices = slices_of(whole, std::ssize(devices));
    if (slices.empty()) return false;
    for (std::size_t i = 0; i < slices.size(); ++i) {
        through.pieces.push_back({.device = devices[i], .region = regions.intern(slices[i])});
    }
    std::ranges::sort(devices);
    return std::ranges::adjacent_find(devices) == devices.end();
}

/// Each takes as many slices as there are devices.
bool ScatterGather::add_slices_at_targets(const Group& group, const LayoutPair& pair,
                                          const ReshardNeeds& needs, const RegionTable& regions,
                                          Layout& through) const {
    const NeedList first = needs[by_region_[group.begin].second];
    if (first.size() != group.size()) return false;
    const auto region = [](const Need& need) { return need.region; };
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
        const std::int32_t target = by_region_[group.begin + i].second;
        if (!std::ranges::equal(needs[target], first, {}, region, region)) return false;
        elements += regions.volume(first[i].region);
        through.pieces.push_back({pair.target(target).device, first[i].region});
    }
    return elements == regions.volume(group.region);
}

std::optional<Layout> ScatterGather::through(const LayoutPair& pair, const ReshardNeeds& needs,
                                             RegionTable& regions, const Machine& machine) {
    if (pair.from.is_partial() || pair.to.is_partial()) return std::nullopt;
    find_groups(pair.to);
    const auto qualifies = [&](const Group& group) {
        return group.size() > 1 && enters_a_node(group, pair, needs, machine) &&
               pays(group, pair, needs, regions, machine);
    };
    if (groups_.empty() || !std::ranges::all_of(groups_, qualifies)) return std::nullopt;
    Layout at_sources;
    if (std::ranges::all_of(groups_, [&](const Group& group) {
            return add_slices_at_sources(group, pair, needs, regions, at_sources);
        })) {
        return at_sources;
    }
    Layout at_targets;
    if (std::ranges::all_of(groups_, [&](const Group& group) {
            return add_slices_at_targets(group, pair, needs, regions, at_targets);
        })) {
        return at_targets;
    }
    return std::nullopt;
}

}  // namespace partita::plan
