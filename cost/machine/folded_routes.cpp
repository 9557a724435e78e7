// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/folded_routes.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "cost/machine/machine.h"

namespace partita::cost {

FoldedRoutes::FoldedRoutes(int vertices, int devices, std::span<const Arc> arcs,
                           std::span<const Channel> channels, std::vector<NodeRun> runs)
    : runs_(std::move(runs)) {
    assert(!runs_.empty());
    find_places(vertices, devices);
    make_sample(arcs, channels);
}

void FoldedRoutes::find_places(int vertices, int devices) {
    places_.resize(static_cast<std::size_t>(vertices));
    for (std::int32_t r = 0; std::cmp_less(r, runs_.size()); ++r) {
        const NodeRun& run = runs_[index(r)];
        for (int i = 0; i < run.count * run.devices; ++i) {
            places_[index(run.first_device + i)] = {r, i / run.devices, i % run.devices};
        }
        for (int i = 0; i < run.count * run.switches; ++i) {
            places_[index(devices + run.first_switch + i)] = {r, i / run.switches,
                                                              run.devices + i % run.switches};
        }
    }
}

void FoldedRoutes::make_sample(std::span<const Arc> arcs, std::span<const Channel> channels) {
    for (const Place& place : places_) {
        const bool in_sample = place.run < 0 || place.node < kSampleNodes;
        sample_vertices_.push_back(in_sample ? static_cast<std::int32_t>(sample_places_.size())
                                             : -1);
        if (in_sample) sample_places_.push_back(place);
    }
    std::vector<Arc> sample;
    for (const Arc& arc : arcs) {
        const std::int32_t from = sample_vertices_[index(arc.from)];
        const std::int32_t to = sample_vertices_[index(arc.to)];
        if (from >= 0 && to >= 0) sample.push_back({from, to, arc.channel});
    }
    trees_.emplace(static_cast<int>(sample_places_.size()), std::move(sample), channels);

    ways_ = std::make_unique<Ways[]>(sample_places_.size());

    const auto first_of = [&](int link) {
        return std::ranges::lower_bound(channels, link, {}, &Channel::link) - channels.begin();
    };
    for (const NodeRun& run : runs_) {
        node_channels_.push_back(static_cast<std::int32_t>(first_of(run.first_link + run.links) -
                                                           first_of(run.first_link)));
    }
}

const FoldedRoutes::Place& FoldedRoutes::place_of(const Arc& arc) const {
    const Place& from = sample_places_[index(arc.from)];
    return from.run >= 0 ? from : sample_places_[index(arc.to)];  // every link has an end in a node
}

FoldedRoutes::Way FoldedRoutes::find_way(std::int32_t from, std::int32_t to) const {
    const Place& source = sample_places_[index(from)];
    const Place& target = sample_places_[index(to)];
    const auto in_node = [](const Place& place, const Place& end) {
        return place.run == end.run && place.node == end.node;
    };
    Way way;
    trees_->walk(from, to, [&](const Arc& arc) {
        const Place& reached = sample_places_[index(arc.to)];
        if (reached.run >= 0 && !in_node(reached, source) && !in_node(reached, target)) {
            way.avoids_others = false;
        }
        const Place& place = place_of(arc);
        const bool at_source = in_node(place, source);
        const std::int32_t node_channels = node_channels_[index(place.run)];
        const std::int32_t node = at_source ? source.node : target.node;
        way.steps.push_back({arc.channel - node * node_channels, node_channels, at_source});
    });
    if (!way.avoids_others) way.steps.clear();
    return way;
}

void FoldedRoutes::find_ways(std::int32_t to) const {
    Ways& ways = ways_[index(to)];
    std::call_once(ways.once, [&] {
        ways.from.resize(sample_places_.size());
        for (std::int32_t from = 0; std::cmp_less(from, sample_places_.size()); ++from) {
            const bool is_there = from != to && trees_->connects(from, to);
            ways.from[index(from)] = is_there ? find_way(from, to) : Way{.avoids_others = false};
        }
        ways.is_known.store(true, std::memory_order_release);
    });
}

}  // namespace partita::cost
