// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/measured_links.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cost/collectives/nccl_links.h"
#include "cost/machine/group_links.h"

namespace partita::cost {

namespace {

/// What a ring over a group finds: GB/s, and the latency of a hop.
struct Ring {
    double bus = 0;
    Time latency;
};

Ring ring_of(const Machine& machine, std::span<const int> devices) {
    const auto links = machine.group_links(devices);
    // Only what depends on links is read: any generation will do.
    const NcclTopology topology = nccl_topology_of(*links, machine, /*generation=*/0);
    const double inside = topology.node_bandwidth;
    if (links->nodes == 1) return {inside, links->node_ring.latency};
    const double between = topology.nic_bandwidth * links->ranks / links->nodes;
    return {links->most_per_node > 1 ? std::min(inside, between) : between,
            links->column_ring.latency};
}

/// Devices of each node, in order.
std::map<int, std::vector<int>> nodes_of(const Machine& machine) {
    std::map<int, std::vector<int>> nodes;
    for (int d = 0; d < machine.device_count(); ++d) nodes[machine.device(d).node].push_back(d);
    return nodes;
}

int levels_of(std::size_t ranks) {
    int levels = 0;
    while ((std::size_t{1} << static_cast<unsigned>(levels)) < ranks) ++levels;
    return levels;
}

}  // namespace

bool same_links(const Machine& one, const Machine& other) {
    return one.device_count() == other.device_count() &&
           std::ranges::equal(one.links(), other.links(), [](const Link& a, const Link& b) {
               return a.from == b.from && a.to == b.to && a.bandwidth == b.bandwidth &&
                      a.latency == b.latency && a.mode == b.mode && a.efficiency == b.efficiency;
           });
}

MeasuredLinks::MeasuredLinks(std::shared_ptr<const CollectiveModel> model, Machine measured,
                             const Machine& machine)
    : model_(std::move(model)),
      measured_(std::move(measured)),
      twins_(static_cast<std::size_t>(machine.device_count()), -1) {
    const auto there = nodes_of(measured_);
    auto node = there.begin();
    for (const auto& [number, devices] : nodes_of(machine)) {
        if (node == there.end()) break;
        const std::size_t both = std::min(devices.size(), node->second.size());
        for (std::size_t j = 0; j < both; ++j) {
            twins_[static_cast<std::size_t>(devices[j])] = node->second[j];
        }
        ++node;
    }
}

std::optional<CollectivePrice> MeasuredLinks::price(const CollectiveCall& call,
                                                    const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    std::vector<int> twins;
    for (const int device : call.devices) {
        twins.push_back(twins_[static_cast<std::size_t>(device)]);
        if (twins.back() < 0) return std::nullopt;
    }
    CollectiveCall there = call;
    there.devices = twins;
    auto price = model_->price(there, measured_);
    if (!price) return price;
    const Ring measured = ring_of(measured_, twins);
    const Ring ring = ring_of(machine, call.devices);
    if (ring.bus == measured.bus && ring.latency == measured.latency) return price;
    there.bytes = Bytes{0};
    const auto start = model_->price(there, measured_);
    if (!start || ring.bus <= 0 || measured.bus <= 0) return std::nullopt;
    const Time more = levels_of(twins.size()) * (ring.latency - measured.latency);
    const Time moving = std::max(price->time - start->time, Time{0});
    price->time = std::max(start->time + more, Time{0}) +
                  time_from_milliseconds(to_milliseconds(moving) * (measured.bus / ring.bus));
    price->source = CostSource::interpolated;
    return price;
}

std::string MeasuredLinks::name() const {
    return model_->name() + " scaled from the links of " + measured_.name();
}

}  // namespace partita::cost
