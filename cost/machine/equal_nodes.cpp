// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/equal_nodes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace partita::cost {

namespace {

constexpr int kNone = -1;

/// Vertices that links join, each set within one node.
class OwnVertices {
public:
    OwnVertices(std::span<const Device> devices, std::size_t switches, std::span<const Link> links)
        : first_switch_(devices.size()),
          parents_(devices.size() + switches),
          nodes_(parents_.size(), kNone),
          links_of_(switches) {
        std::iota(parents_.begin(), parents_.end(), std::size_t{0});
        for (std::size_t i = 0; i < devices.size(); ++i) nodes_[i] = devices[i].node;
        for (const Link& link : links) {
            const auto from = static_cast<std::size_t>(link.from);
            const auto to = static_cast<std::size_t>(link.to);
            // Each at the switch that is added later, the one in front.
            const std::size_t first =
                to < first_switch_ || (from >= first_switch_ && from < to) ? from : to;
            if (first < first_switch_) continue;
            links_of_[first - first_switch_].push_back(first == from ? to : from);
        }
    }

    /// False, and nothing changes: it would join two nodes.
    bool add_switch(std::size_t number) {
        int node = kNone;
        for (const std::size_t other : links_of_[number]) {
            const int found = node_of(other);
            if (found == kNone) continue;
            if (node != kNone && node != found) return false;
            node = found;
        }
        const std::size_t root = first_switch_ + number;
        for (const std::size_t other : links_of_[number]) parents_[root_of(other)] = root;
        nodes_[root] = node;
        return true;
    }

    /// kNone: no device is joined with it.
    int node_of(std::size_t vertex) { return nodes_[root_of(vertex)]; }

private:
    std::size_t root_of(std::size_t vertex) {
        while (parents_[vertex] != vertex) vertex = parents_[vertex] = parents_[parents_[vertex]];
        return vertex;
    }

    std::size_t first_switch_;
    std::vector<std::size_t> parents_;
    std::vector<int> nodes_;  ///< of roots
    std::vector<std::vector<std::size_t>> links_of_;
};

/// How many of rising numbers `of(0)`, `of(1)`, ... are each of 0..count-1; empty: they do not rise,
/// or some number is none of these.
template <class Of>
std::vector<int> counts(std::size_t length, std::size_t count, Of of) {
    std::vector<int> found(count);
    int last = 0;
    for (std::size_t i = 0; i < length; ++i) {
        const int number = of(i);
        if (number < last || !std::cmp_less(number, count)) return {};
        ++found[static_cast<std::size_t>(number)];
        last = number;
    }
    return found;
}

auto figures_of(const Device& device) {
    return std::tie(device.model, device.kind, device.threads, device.memory, device.reserved,
                    device.memory_bandwidth, device.launch_interval, device.matrix_flops,
                    device.tf32_flops, device.vector_flops, device.kernels,
                    device.compute_efficiency, device.memory_efficiency, device.source,
                    device.price_per_hour);
}

auto figures_of(const Link& link) {
    return std::tie(link.bandwidth, link.latency, link.mode, link.efficiency, link.source);
}

/// Compares nodes, of which it knows where they begin.
class Comparison {
public:
    Comparison(std::span<const Device> devices, std::span<const Link> links, int shared)
        : devices_(devices), links_(links), shared_(shared) {}

    [[nodiscard]] bool alike(const NodeRun& a, const NodeRun& b) const {
        if (a.devices != b.devices || a.switches != b.switches || a.links != b.links) return false;
        for (int i = 0; i < a.devices; ++i) {
            const Device& one = device(a.first_device + i);
            if (figures_of(one) != figures_of(device(b.first_device + i))) return false;
        }
        for (int i = 0; i < a.links; ++i) {
            const Link& one = link(a.first_link + i);
            const Link& other = link(b.first_link + i);
            if (figures_of(one) != figures_of(other)) return false;
            if (position(one.from, a) != position(other.from, b)) return false;
            if (position(one.to, a) != position(other.to, b)) return false;
        }
        return true;
    }

private:
    [[nodiscard]] const Device& device(int i) const {
        return devices_[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const Link& link(int i) const { return links_[static_cast<std::size_t>(i)]; }
    /// Of a vertex in its node: devices, then switches; of a shared switch a number below 0.
    [[nodiscard]] int position(int vertex, const NodeRun& node) const {
        const int count = static_cast<int>(devices_.size());
        if (vertex < count) return vertex - node.first_device;
        const int number = vertex - count;
        return number < shared_ ? -1 - number : node.devices + number - node.first_switch;
    }

    std::span<const Device> devices_;
    std::span<const Link> links_;
    int shared_;
};

}  // namespace

std::vector<NodeRun> runs_of_nodes(std::span<const Device> devices,
                                   std::span<const std::string> switches,
                                   std::span<const Link> links) {
    if (!std::cmp_less(devices.back().node, devices.size())) return {};  // some node has none
    // The last switches are the nodes' own, as many as join no two of them.
    OwnVertices own(devices, switches.size(), links);
    std::size_t shared = switches.size();
    while (shared > 0 && own.add_switch(shared - 1)) --shared;

    const auto is_shared = [&](int vertex) {
        return std::cmp_greater_equal(vertex, devices.size()) &&
               std::cmp_less(vertex, devices.size() + shared);
    };
    const auto node_of_link = [&](std::size_t i) {
        const auto& [from, to] = std::pair(links[i].from, links[i].to);
        const int at_from = is_shared(from) ? kNone : own.node_of(static_cast<std::size_t>(from));
        const int at_to = is_shared(to) ? kNone : own.node_of(static_cast<std::size_t>(to));
        return is_shared(from) || at_from == at_to ? at_to : is_shared(to) ? at_from : kNone;
    };
    const auto count = static_cast<std::size_t>(devices.back().node) + 1;
    const auto in_devices =
        counts(devices.size(), count, [&](std::size_t i) { return devices[i].node; });
    const auto in_switches = counts(switches.size() - shared, count, [&](std::size_t i) {
        return own.node_of(devices.size() + shared + i);
    });
    const auto in_links = counts(links.size(), count, node_of_link);
    if (in_devices.empty() || in_switches.empty() || in_links.empty()) return {};
    if (std::ranges::find(in_devices, 0) != in_devices.end()) return {};

    const Comparison comparison(devices, links, static_cast<int>(shared));
    std::vector<NodeRun> runs;
    NodeRun node{.count = 1, .first_switch = static_cast<int>(shared)};
    for (std::size_t i = 0; i < count; ++i) {
        node.devices = in_devices[i];
        node.switches = in_switches[i];
        node.links = in_links[i];
        if (!runs.empty() && comparison.alike(runs.back(), node)) {
            ++runs.back().count;
        } else {
            runs.push_back(node);
        }
        node.first_device += node.devices;
        node.first_switch += node.switches;
        node.first_link += node.links;
    }
    return runs;
}

}  // namespace partita::cost
