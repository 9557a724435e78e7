// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/nccl_links.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string_view>

#include "base/files.h"
#include "base/json.h"
#include "cost/machine/data_folder.h"

namespace partita::cost {

namespace {

/// GB/s of one NVLink by generation, as NCCL counts (src/graph/topo.h).
constexpr std::array kLinkRates = {20.0, 20.0, 20.6, 40.1};

/// Generation by product, e.g. "V100".
std::map<std::string, int, std::less<>> read_gpus() {
    const auto path = data_folder() / "collectives" / "nccl_gpus.json";
    const JsonFile json(read_text_file(path), path.string());
    std::map<std::string, int, std::less<>> gpus;
    for (std::size_t i = 0; i < kNcclGenerations.size(); ++i) {
        for (const auto& item : json.root()[kNcclGenerations[i]].items()) {
            gpus[item.text({"the name of a GPU"})] = static_cast<int>(i);
        }
    }
    return gpus;
}

/// What the round leaves to one of its copies, in GB/s.
double rate_of(const Round& round) {
    if (round.flows == 0) return 0;
    return static_cast<double>(round.bandwidth) / static_cast<double>(round.flows) / 1e9;
}

double microseconds_of(Time time) {
    return to_milliseconds(time) * 1e3;
}

}  // namespace

int nccl_generation_of(const Device& device) {
    static const auto kGpus = read_gpus();
    if (device.kind != DeviceKind::gpu) return -1;
    const std::string_view model = device.model;
    for (std::size_t from = 0; from < model.size();) {
        std::size_t to = from;
        while (to < model.size() && std::isalnum(static_cast<unsigned char>(model[to])) != 0) ++to;
        const auto found = kGpus.find(model.substr(from, to - from));
        if (found != kGpus.end()) return found->second;
        from = to + 1;
    }
    return -1;
}

NcclTopology nccl_topology_of(const GroupLinks& links, const Machine& machine, int generation) {
    NcclTopology topology{.generation = generation};
    // NCCL's table has 0.6 us for a hop on NVLink and 1 us on PCI Express.
    topology.pci = links.node_ring.latency >= nanoseconds(800);
    if (links.nodes > 1) {
        const double network = rate_of(links.column_ring);
        const int mean = links.ranks / links.nodes;
        topology.nic_bandwidth = network * links.fewest_per_node / mean;
        topology.net_latency = std::max(
            0.0, microseconds_of(links.column_ring.latency) - nccl_constants()->net.ring[0]);
        topology.node_bandwidth = network;
    }
    if (links.most_per_node > 1) {
        topology.node_bandwidth =
            std::max({rate_of(links.node_ring),
                      (links.most_per_node - 1) * rate_of(links.node_pairs(machine)),
                      static_cast<double>(links.direct_bandwidth(machine)) / 1e9});
    }
    const double link = kLinkRates[static_cast<std::size_t>(generation)];
    topology.node_channels =
        std::clamp(static_cast<int>(std::lround(2 * topology.node_bandwidth / link)), 2, 24);
    topology.nvls = generation >= 2 && links.node_switches_reduce;
    topology.collnet = links.nodes > 1 && links.switch_reduces;
    return topology;
}

NcclLinksModel::NcclLinksModel(const Machine& machine) {
    for (const Device& device : machine.devices()) {
        generations_.push_back(nccl_generation_of(device));
    }
}

bool NcclLinksModel::knows_some() const {
    return std::ranges::count_if(generations_, [](int generation) { return generation >= 0; }) > 1;
}

std::optional<CollectivePrice> NcclLinksModel::price(const CollectiveCall& call,
                                                     const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    int oldest = static_cast<int>(kNcclGenerations.size());
    for (const int device : call.devices) {
        oldest = std::min(oldest, generations_[static_cast<std::size_t>(device)]);
    }
    if (oldest < 0) return std::nullopt;
    const auto links = machine.group_links(call.devices);
    const NcclTuning tuning(nccl_constants(), nccl_topology_of(*links, machine, oldest));
    return tuning.price(call.kind, call.bytes, links->ranks, links->nodes);
}

}  // namespace partita::cost
