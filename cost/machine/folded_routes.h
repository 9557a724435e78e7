// SPDX-License-Identifier: Apache-2.0
//
// Routes of a machine whose nodes are alike (equal_nodes.h), without looking at all of them: of each
// run three nodes are the sample. A route between two nodes of a run is that between the sample's
// second and third, with the channels of these two.
//
// Why it is the same route. What a route crosses of third nodes may all be in one node, at the same
// weight, hops and latency; in the sample that is the first one. And among equal ways the smaller
// channel decides: if one leads through a third node, then so does one through the first, whose
// channels are smaller yet, before or behind whatever lies between. So a route of the sample that
// avoids the first node is the machine's. One that does not says nothing: the machine is asked
// (routes.h).
//
// Threads: any number may ask.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cost/machine/equal_nodes.h"
#include "cost/machine/routes.h"

namespace partita::cost {

class FoldedRoutes {
public:
    /// Does the run have nodes that others stand for?
    static bool folds(const NodeRun& run) { return run.count > kSampleNodes; }

    /// `arcs` of the whole machine, in rising order of channels; `devices` of its `vertices` come
    /// first. Runs as runs_of_nodes() has them, at least one.
    FoldedRoutes(int vertices, int devices, std::span<const Arc> arcs,
                 std::span<const Channel> channels, std::vector<NodeRun> runs);

    /// Calls visit(channel) along the route; it must be there. False: ask the machine.
    template <class Visit>
    [[nodiscard]] bool walk(int from, int to, Visit visit) const {
        const End source = end_of(from, places_[index(to)]);
        const End target = end_of(to, places_[index(from)]);
        const Way& way = way_between(source.vertex, target.vertex);
        if (!way.avoids_others) return false;
        for (const Step& step : way.steps) {
            visit(step.channel + (step.at_source ? source : target).node * step.node_channels);
        }
        return true;
    }

private:
    /// Where a vertex is; run -1: in no node.
    struct Place {
        std::int32_t run = -1;
        std::int32_t node = 0;      ///< of the run
        std::int32_t position = 0;  ///< in the node: devices, then switches
    };
    /// Of a route: the node in the machine, and the vertex in the sample.
    struct End {
        std::int32_t node = 0;  ///< of the run
        std::int32_t vertex = 0;
    };
    /// Of a route: channel `channel` of the run's first node, and its like in the node of an end.
    struct Step {
        std::int32_t channel = 0;
        std::int32_t node_channels = 0;
        bool at_source = false;
    };
    /// A route of the sample.
    struct Way {
        bool avoids_others = true;  ///< no third node of the sample
        std::vector<Step> steps;    ///< if it does
    };
    /// To a vertex of the sample, from each.
    struct Ways {
        std::once_flag once;
        std::atomic<bool> is_known{false};
        std::vector<Way> from;
    };

    static constexpr int kSampleNodes = 3;

    void find_places(int vertices, int devices);
    void make_sample(std::span<const Arc> arcs, std::span<const Channel> channels);
    /// Of a route between that and a vertex of the other place.
    [[nodiscard]] End end_of(int vertex, const Place& other) const {
        const Place& place = places_[index(vertex)];
        const bool is_behind = place.run == other.run && place.node > other.node;
        return {place.node, sample_vertex_of(vertex, place, is_behind ? 2 : 1)};
    }
    /// The vertex that is to a node of the sample what that vertex is to its own.
    [[nodiscard]] std::int32_t sample_vertex_of(int vertex, const Place& place,
                                                std::int32_t node) const {
        if (place.run < 0) return sample_vertices_[index(vertex)];
        const NodeRun& run = runs_[index(place.run)];
        if (!folds(run)) return sample_vertices_[index(vertex)];
        // The same position, so many nodes away.
        const int members = place.position < run.devices ? run.devices : run.switches;
        return sample_vertices_[index(vertex + (node - place.node) * members)];
    }
    [[nodiscard]] const Way& way_between(std::int32_t from, std::int32_t to) const {
        const Ways& ways = ways_[index(to)];
        // Asked for millions of times, which std::call_once() is too slow for.
        if (!ways.is_known.load(std::memory_order_acquire)) find_ways(to);
        return ways.from[index(from)];
    }
    void find_ways(std::int32_t to) const;
    [[nodiscard]] Way find_way(std::int32_t from, std::int32_t to) const;
    /// The node, in the sample, that an arc lies in.
    [[nodiscard]] const Place& place_of(const Arc& arc) const;
    static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

    std::vector<NodeRun> runs_;
    std::vector<Place> places_;                  ///< of the machine's vertices
    std::vector<Place> sample_places_;           ///< of the sample's vertices
    std::vector<std::int32_t> sample_vertices_;  ///< of the machine's vertices; -1: not in it
    std::vector<std::int32_t> node_channels_;    ///< of a run: channels of a node
    std::optional<Routes> trees_;                ///< of the sample; channels are the machine's
    std::unique_ptr<Ways[]> ways_;               ///< per vertex of the sample
};

}  // namespace partita::cost
