// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/routes.h"

#include <cassert>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "cost/machine/machine.h"

namespace partita::cost {

namespace {

constexpr Bytes kTypicalCopy{1 << 20};

struct Label {
    Int128 weight = std::numeric_limits<std::int64_t>::max();
    int hops = 0;
    Int128 latency = 0;
    std::int32_t arc = std::numeric_limits<std::int32_t>::max();
    auto operator<=>(const Label&) const = default;
};

}  // namespace

Routes::Routes(int vertices, std::vector<Arc> arcs, std::span<const Channel> channels)
    : vertices_(vertices),
      arcs_(std::move(arcs)),
      arcs_into_(static_cast<std::size_t>(vertices)),
      trees_(std::make_unique<Tree[]>(static_cast<std::size_t>(vertices))) {
    for (std::size_t i = 0; i < arcs_.size(); ++i) {
        const Channel& channel = channels[static_cast<std::size_t>(arcs_[i].channel)];
        weights_.push_back(channel.latency + transfer_time(kTypicalCopy, channel.bandwidth));
        latencies_.push_back(channel.latency);
        arcs_into_[static_cast<std::size_t>(arcs_[i].to)].push_back(static_cast<std::int32_t>(i));
    }
}

const std::vector<std::int32_t>& Routes::tree(int destination) const {
    assert(destination >= 0 && destination < vertices_);
    Tree& tree = trees_[static_cast<std::size_t>(destination)];
    std::call_once(tree.once, [&] { tree.arc = tree_to(destination); });
    return tree.arc;
}

std::vector<std::int32_t> Routes::tree_to(int destination) const {
    // A weight is at least 1 ps, so the next vertex of a route is always settled before its
    // predecessor, and comparing arcs last gives the stated tie-break.
    using Entry = std::pair<Label, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<std::optional<Label>> labels(static_cast<std::size_t>(vertices_));
    labels[static_cast<std::size_t>(destination)] = Label{.weight = 0, .arc = -1};
    queue.emplace(*labels[static_cast<std::size_t>(destination)], destination);
    while (!queue.empty()) {
        const auto [label, vertex] = queue.top();
        queue.pop();
        if (label != *labels[static_cast<std::size_t>(vertex)]) continue;  // improved since
        for (const std::int32_t arc : arcs_into_[static_cast<std::size_t>(vertex)]) {
            const auto i = static_cast<std::size_t>(arc);
            const Label found{.weight = label.weight + weights_[i].raw(),
                              .hops = label.hops + 1,
                              .latency = label.latency + latencies_[i].raw(),
                              .arc = arc};
            auto& best = labels[static_cast<std::size_t>(arcs_[i].from)];
            if (best && *best <= found) continue;
            best = found;
            queue.emplace(found, arcs_[i].from);
        }
    }
    std::vector<std::int32_t> tree;
    tree.reserve(labels.size());
    for (const auto& label : labels) tree.push_back(label ? label->arc : -1);
    return tree;
}

std::vector<bool> Routes::connected_to(int source, bool backwards) const {
    std::vector<std::vector<int>> neighbours(static_cast<std::size_t>(vertices_));
    for (const Arc& arc : arcs_) {
        const auto [from, to] =
            backwards ? std::pair(arc.to, arc.from) : std::pair(arc.from, arc.to);
        neighbours[static_cast<std::size_t>(from)].push_back(to);
    }
    std::vector<bool> reached(static_cast<std::size_t>(vertices_));
    reached[static_cast<std::size_t>(source)] = true;
    std::vector<int> open{source};
    while (!open.empty()) {
        const int vertex = open.back();
        open.pop_back();
        for (const int other : neighbours[static_cast<std::size_t>(vertex)]) {
            if (reached[static_cast<std::size_t>(other)]) continue;
            reached[static_cast<std::size_t>(other)] = true;
            open.push_back(other);
        }
    }
    return reached;
}

std::optional<std::pair<int, int>> Routes::disconnected(int devices) const {
    // Everyone reaches device 0 and is reached by it: then everyone reaches everyone.
    const std::vector<bool> reached = connected_to(0, false);
    const std::vector<bool> reaching = connected_to(0, true);
    for (int device = 1; device < devices; ++device) {
        if (!reached[static_cast<std::size_t>(device)]) return std::pair{0, device};
        if (!reaching[static_cast<std::size_t>(device)]) return std::pair{device, 0};
    }
    return std::nullopt;
}

}  // namespace partita::cost
