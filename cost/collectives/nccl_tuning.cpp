// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/nccl_tuning.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "cost/machine/group_links.h"

namespace partita::cost {

namespace {

constexpr std::array kAlgorithms = {
    Algorithm::ring,           Algorithm::tree,          Algorithm::nvls, Algorithm::nvls_tree,
    Algorithm::collnet_direct, Algorithm::collnet_chain, Algorithm::pat};

std::size_t position_of(Protocol protocol) {
    return static_cast<std::size_t>(std::ranges::find(kNcclProtocols, protocol) -
                                    kNcclProtocols.begin());
}

int log2_of(int count) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(count))) - 1;
}

std::size_t column_of(int nodes) {
    return static_cast<std::size_t>(std::min(nodes, 3) - 1);
}

bool gathers(Collective kind) {
    return kind == Collective::all_gather || kind == Collective::reduce_scatter;
}

bool rooted(Collective kind) {
    return kind == Collective::broadcast || kind == Collective::reduce;
}

/// Rounds of a ring, and how many of them wait for the network.
std::pair<int, int> ring_steps(Collective kind, int ranks, int nodes) {
    switch (kind) {
    case Collective::all_reduce: return {2 * (ranks - 1), 2 * (nodes - 1)};
    case Collective::all_gather:
    case Collective::reduce_scatter: return {ranks - 1, nodes - 1};
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_to_all:
    case Collective::scatter:
    case Collective::gather: break;
    }
    return {ranks, 0};
}

}  // namespace

NcclTuning::NcclTuning(std::shared_ptr<const NcclConstants> constants, NcclTopology topology)
    : constants_(std::move(constants)), topology_(std::move(topology)) {}

bool NcclTuning::offers(Collective kind, Algorithm algorithm, Protocol protocol, int ranks,
                        int nodes) const {
    const bool reduces = kind == Collective::all_reduce;
    const bool simple = protocol == Protocol::simple;
    // 120 of 128 bytes need links that keep the order of a warp's stores: NVLink.
    if (protocol == Protocol::ll128 && topology_.pci) return false;
    const bool collnet = topology_.collnet && nodes > 1 && reduces && simple;
    switch (algorithm) {
    case Algorithm::ring: return reduces || gathers(kind) || rooted(kind);
    case Algorithm::tree: return reduces;
    case Algorithm::nvls:
        return topology_.nvls && topology_.node_channels > 1 && simple &&
               (nodes == 1 ? reduces || gathers(kind) : collnet);
    case Algorithm::nvls_tree: return topology_.nvls && nodes > 1 && reduces && simple;
    case Algorithm::collnet_direct: return collnet && topology_.links.empty() && !topology_.pci;
    case Algorithm::collnet_chain: return collnet;
    case Algorithm::pat: return gathers(kind) && nodes > 1 && ranks == nodes && simple;
    default: return false;
    }
}

int NcclTuning::channels(int ranks, int nodes) const {
    if (nodes == 1) return topology_.node_channels;
    return std::min(topology_.most_channels, topology_.channels_per_rank * (ranks / nodes));
}

double NcclTuning::ll_max(int nodes) const {
    // In one node NCCL's rows mean the GPU, else the CPU: the first an Intel, the second an AMD.
    const std::size_t cpu = topology_.amd_cpu ? 1 : 0;
    const auto row = nodes == 1 ? static_cast<std::size_t>(topology_.generation) : cpu;
    return constants_->generations[row].ll_max[column_of(nodes)];
}

double NcclTuning::ring_bus(std::size_t protocol, int ranks, int nodes) const {
    const int per_node = ranks / nodes;
    const NcclGeneration& most =
        constants_->generations[static_cast<std::size_t>(topology_.generation)];
    double ring = topology_.node_bandwidth * topology_.share_of_links(per_node);
    if (nodes > 1) ring = std::min(ring, per_node * topology_.nic_bandwidth);
    if (protocol == 0) return std::min(ll_max(nodes), ring / 2);
    if (protocol == 1) {
        return std::min(ring * 0.92,
                        channels(ranks, nodes) * most.ring_ll128_max[column_of(nodes)]);
    }
    return ring;
}

double NcclTuning::tree_bus(std::size_t protocol, int ranks, int nodes) const {
    const int per_node = ranks / nodes;
    const std::size_t column = column_of(nodes);
    const NcclGeneration& most =
        constants_->generations[static_cast<std::size_t>(topology_.generation)];
    const int count = channels(ranks, nodes);
    const double network = per_node * topology_.nic_bandwidth;
    double links = topology_.node_bandwidth * topology_.share_of_links(per_node);
    // With two nodes each uses both directions of its ports for its one neighbour.
    if (nodes > 1) links = nodes == 2 ? std::min(links, 2 * network) : network;
    double tree = std::min(links * 0.92, count * most.tree_max[column]);
    if (protocol == 0) tree = std::min(tree / 3.8, ll_max(nodes));
    if (protocol == 1) {
        tree = std::min(tree * (nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                        count * most.tree_ll128_max[column]);
    }
    return nodes == 1 ? tree : tree * 0.85;
}

double NcclTuning::nvls_bus(Algorithm algorithm, Collective kind, int ranks, int nodes) const {
    const NcclGeneration& most =
        constants_->generations[static_cast<std::size_t>(topology_.generation)];
    const int per_node = ranks / nodes;
    const double count = channels(ranks, nodes);
    double inside = topology_.node_bandwidth * most.nvls_efficiency * (count - 1) / count;
    // All-reduce pipelines two operations; the others move what the peers hold.
    inside *= kind == Collective::all_reduce ? 2 : (per_node - 1.0) / per_node;
    if (nodes == 1) return inside;
    const double network = per_node * topology_.nic_bandwidth;
    if (algorithm == Algorithm::nvls) return std::min(inside, network);
    return std::min(
        {inside, network * (nodes == 2 ? 2 : 1), count * most.nvls_tree_max[column_of(nodes)]});
}

double NcclTuning::net_of(double own, std::size_t protocol) const {
    return own + topology_.net_latency * (protocol == 2 ? 2 : 1);
}

NcclTuning::Line NcclTuning::ring_line(Collective kind, std::size_t protocol, int ranks,
                                       int nodes) const {
    const int per_node = ranks / nodes;
    const auto [steps, inter] = ring_steps(kind, ranks, nodes);
    const NcclLatencies& hops = topology_.pci ? constants_->pci : constants_->nvlink;
    const NcclLatencies& net = constants_->net;
    Line line{.base = constants_->base.ring[protocol],
              .amount = static_cast<double>(steps) / ranks,
              .bus = ring_bus(protocol, ranks, nodes)};
    if (rooted(kind)) {
        if (nodes == 1) line.inside = hops.ring[protocol];
        if (nodes > 1) line.between = net_of(net.ring[protocol], protocol);
        return line;
    }
    const double cpu = topology_.amd_cpu ? constants_->overhead_amd : constants_->overhead_intel;
    const double overhead = nodes == 1 ? 0 : cpu * (protocol == 2 ? 3 : 1);
    line.inside = (steps - inter) * std::max(hops.ring[protocol], overhead);
    // With one rank per node nothing hides the network: its latency is the tree's.
    const double own = per_node == 1 ? net.tree[protocol] : net.ring[protocol];
    line.between = inter * net_of(own, protocol);
    return line;
}

std::optional<NcclTuning::Line> NcclTuning::line(Collective kind, Algorithm algorithm,
                                                 Protocol protocol, int ranks, int nodes) const {
    if (!offers(kind, algorithm, protocol, ranks, nodes)) return std::nullopt;
    const std::size_t p = position_of(protocol);
    const int peers = ranks / nodes - 1;
    const int levels = log2_of(nodes);
    const NcclLatencies& base = constants_->base;
    const NcclLatencies& hops = topology_.pci ? constants_->pci : constants_->nvlink;
    const NcclLatencies& net = constants_->net;
    const auto steps = [&] {
        return static_cast<double>(ring_steps(kind, ranks, nodes).first) / ranks;
    };
    const auto simple_ring = [&] { return ring_bus(2, ranks, nodes); };
    switch (algorithm) {
    case Algorithm::ring: return ring_line(kind, p, ranks, nodes);
    case Algorithm::tree:
        return Line{.base = base.tree[p],
                    .inside = 2 * peers * hops.tree[p],
                    .between = 2 * levels * net_of(net.tree[p], p),
                    .amount = 2,
                    .bus = tree_bus(p, ranks, nodes)};
    case Algorithm::nvls:
        return Line{.inside = hops.nvls,
                    .between = nodes == 1 ? 0 : net_of(net.nvls, p),
                    .amount = gathers(kind) ? 1 : steps(),
                    .bus = nvls_bus(algorithm, kind, ranks, nodes)};
    case Algorithm::nvls_tree:
        return Line{.base = base.nvls_tree,
                    .inside = hops.nvls_tree,
                    .between = 2 * levels * net_of(net.nvls_tree, p),
                    .amount = steps(),
                    .bus = nvls_bus(algorithm, kind, ranks, nodes)};
    case Algorithm::collnet_direct:
        // 0.4 us for each peer that takes its turn; Hopper reaches 0.85 of the bandwidth.
        return Line{.base = base.collnet_direct,
                    .inside = 2 * (std::min(1, peers) * hops.collnet_direct + peers * 0.4),
                    .between = net_of(net.collnet_direct, p),
                    .amount = 2,
                    .bus = simple_ring() * (topology_.generation >= 2 ? 0.85 : 1)};
    case Algorithm::collnet_chain:
        return Line{.base = base.collnet_chain,
                    .inside = 2 * peers * hops.collnet_chain,
                    .between = net_of(net.collnet_chain, p),
                    .amount = 2,
                    .bus = simple_ring()};
    case Algorithm::pat:
        return Line{.base = base.pat,
                    .inside = ranks * 2.8,
                    .between = levels * net_of(net.pat, p) / 3.5,
                    .amount = 1,
                    .bus = simple_ring() * 0.75};
    default: return std::nullopt;
    }
}

double NcclTuning::plateau(Collective kind, Algorithm algorithm, Protocol protocol,
                           int nodes) const {
    const bool slow = algorithm == Algorithm::ring && protocol == Protocol::simple && nodes > 1 &&
                      kind == Collective::all_reduce;
    if (!slow) return 1;
    return topology_.generation == 0 ? 1.9 : 1.4;
}

double NcclTuning::microseconds_of(Collective kind, Algorithm algorithm, Protocol protocol,
                                   const Line& line, Bytes bytes, int ranks, int nodes) const {
    const auto size = static_cast<double>(bytes.raw());
    double latency = line.latency();
    double bandwidth = line.bandwidth();
    if (algorithm == Algorithm::tree && size >= 64) {
        const auto& factors = constants_->tree_correction[position_of(protocol)];
        const int octave =
            static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes.raw() / 64))) - 1;
        const auto i = static_cast<std::size_t>(octave);
        if (i + 1 < factors.size()) {
            const double low = 64.0 * static_cast<double>(std::int64_t{1} << octave);
            bandwidth *= factors[i] + (factors[i + 1] - factors[i]) * (size / low - 1);
        }
    }
    if (size / (topology_.most_channels * ranks) >= 64) {
        latency *= plateau(kind, algorithm, protocol, nodes);
    }
    return latency + size / (1000 * bandwidth);
}

std::optional<CollectivePrice> NcclTuning::price(Collective kind, Bytes bytes, int ranks,
                                                 int nodes) const {
    std::optional<CollectivePrice> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Algorithm algorithm : kAlgorithms) {
        for (const Protocol protocol : kNcclProtocols) {
            const auto found = line(kind, algorithm, protocol, ranks, nodes);
            if (!found || !(found->bus > 0)) continue;
            const double time =
                microseconds_of(kind, algorithm, protocol, *found, bytes, ranks, nodes);
            if (time >= least) continue;
            least = time;
            best = CollectivePrice{.algorithm = algorithm, .protocol = protocol};
        }
    }
    if (best) best->time = time_from_milliseconds(least / 1000);
    return best;
}

NcclTuning::Choices NcclTuning::choices(Collective kind, int ranks, int nodes) const {
    Choices found;
    // Each is a straight line, latency + size slope.
    std::array<double, 6> latency{};
    std::array<double, 6> slope{};
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
        for (const Protocol protocol : kNcclProtocols) {
            const auto each = line(kind, algorithm, protocol, ranks, nodes);
            if (!each) continue;
            latency[found.count] = each->latency() * plateau(kind, algorithm, protocol, nodes);
            slope[found.count] = 1 / (1000 * each->bandwidth());
            found.items[found.count++] = {algorithm, protocol, *each};
        }
    }
    // Their lower envelope. Of equal lines the first stays.
    for (std::size_t i = 0; i < found.count; ++i) {
        Choice& own = found.items[i];
        for (std::size_t j = 0; j < found.count; ++j) {
            const double later = latency[i] - latency[j];
            const double steeper = slope[i] - slope[j];
            if (steeper < 0) own.from = std::max(own.from, later / -steeper);
            if (steeper > 0) own.to = std::min(own.to, -later / steeper);
            if (steeper == 0 && (later > 0 || (later == 0 && j < i))) own.to = -1;
        }
    }
    auto* const begin = found.items.data();
    found.count =
        static_cast<std::size_t>(std::remove_if(begin, begin + found.count,
                                                [](const Choice& c) { return !(c.from < c.to); }) -
                                 begin);
    return found;
}

NcclTuning NcclTuning::for_nodes_of(const GroupLinks& links) const {
    NcclTuning own = *this;
    const int mean = links.ranks / links.nodes;
    own.topology_.nic_bandwidth *= static_cast<double>(links.fewest_per_node) / mean;
    return own;
}

NcclTuningModel::NcclTuningModel(NcclTuning tuning, std::string name)
    : tuning_(std::move(tuning)), name_(std::move(name)) {}

std::optional<CollectivePrice> NcclTuningModel::price(const CollectiveCall& call,
                                                      const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    if (links->ranks_per_node > 0) {
        return tuning_.price(call.kind, call.bytes, links->ranks, links->nodes);
    }
    return tuning_.for_nodes_of(*links).price(call.kind, call.bytes, links->ranks, links->nodes);
}

}  // namespace partita::cost
