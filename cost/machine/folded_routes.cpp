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

    const auto first_of = [&](int link) {
        return std::ranges::lower_bound(channels, link, {}, &Channel::link) - channels.begin();
    };
    for (const NodeRun& run : runs_) {
        node_channels_.push_back(static_cast<std::int32_t>(first_of(run.first_link + run.links) -
                                                           first_of(run.first_link)));
    }
}

FoldedRoutes::End FoldedRoutes::end_of(int vertex, std::int32_t node) const {
    const Place& place = places_[index(vertex)];
    if (place.run < 0) return {place, node, sample_vertices_[index(vertex)]};
    const NodeRun& run = runs_[index(place.run)];
    if (run.count <= kSampleNodes) node = place.node;
    // The same position, so many nodes away.
    const int members = place.position < run.devices ? run.devices : run.switches;
    return {place, node, sample_vertices_[index(vertex + (node - place.node) * members)]};
}

FoldedRoutes::Ends FoldedRoutes::ends_of(int from, int to) const {
    const Place& one = places_[index(from)];
    const Place& other = places_[index(to)];
    const bool same_run = one.run == other.run;
    return {end_of(from, same_run && one.node > other.node ? 2 : 1),
            end_of(to, same_run && one.node < other.node ? 2 : 1)};
}

bool FoldedRoutes::is_at_an_end(const Ends& ends, const Place& place) {
    const auto in_node_of = [&](const End& end) {
        return place.run == end.place.run && place.node == end.node;
    };
    return place.run < 0 || in_node_of(ends.from) || in_node_of(ends.to);
}

const FoldedRoutes::Place& FoldedRoutes::place_of(const Arc& arc) const {
    const Place& from = sample_places_[index(arc.from)];
    return from.run >= 0 ? from : sample_places_[index(arc.to)];  // every link has an end in a node
}

std::int32_t FoldedRoutes::channel_of(const Ends& ends, const Arc& arc) const {
    const Place& place = place_of(arc);
    const bool at_from = place.run == ends.from.place.run && place.node == ends.from.node;
    const End& end = at_from ? ends.from : ends.to;
    return arc.channel + (end.place.node - end.node) * node_channels_[index(place.run)];
}

}  // namespace partita::cost
