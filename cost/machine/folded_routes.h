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

#include <cstdint>
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
        const Ends ends = ends_of(from, to);
        bool avoids_others = true;
        trees_->walk(ends.from.vertex, ends.to.vertex, [&](const Arc& arc) {
            avoids_others = avoids_others && is_at_an_end(ends, sample_places_[index(arc.to)]);
        });
        if (!avoids_others) return false;
        trees_->walk(ends.from.vertex, ends.to.vertex,
                     [&](const Arc& arc) { visit(channel_of(ends, arc)); });
        return true;
    }

private:
    /// Where a vertex is; run -1: in no node.
    struct Place {
        std::int32_t run = -1;
        std::int32_t node = 0;      ///< of the run
        std::int32_t position = 0;  ///< in the node: devices, then switches
    };
    /// Of a route: where it is in the machine, and what stands for that in the sample.
    struct End {
        Place place;
        std::int32_t node = 0;  ///< of the run
        std::int32_t vertex = 0;
    };
    struct Ends {
        End from, to;
    };

    static constexpr int kSampleNodes = 3;

    void find_places(int vertices, int devices);
    void make_sample(std::span<const Arc> arcs, std::span<const Channel> channels);
    [[nodiscard]] End end_of(int vertex, std::int32_t node) const;
    [[nodiscard]] Ends ends_of(int from, int to) const;
    [[nodiscard]] static bool is_at_an_end(const Ends& ends, const Place& place);
    [[nodiscard]] std::int32_t channel_of(const Ends& ends, const Arc& arc) const;
    /// The node, in the sample, that an arc lies in.
    [[nodiscard]] const Place& place_of(const Arc& arc) const;
    static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

    std::vector<NodeRun> runs_;
    std::vector<Place> places_;                  ///< of the machine's vertices
    std::vector<Place> sample_places_;           ///< of the sample's vertices
    std::vector<std::int32_t> sample_vertices_;  ///< of the machine's vertices; -1: not in it
    std::vector<std::int32_t> node_channels_;    ///< of a run: channels of a node
    std::optional<Routes> trees_;                ///< of the sample; channels are the machine's
};

}  // namespace partita::cost
