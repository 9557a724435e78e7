// SPDX-License-Identifier: Apache-2.0
#include "cost/nccl_tuning.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "cost/group_links.h"

namespace partita::cost {

namespace {

using graph::JsonField;

constexpr double kMostFigure = 1e6;
constexpr std::array<std::string_view, 4> kGenerations = {"volta", "ampere", "hopper", "blackwell"};
constexpr std::array kProtocols = {Protocol::ll, Protocol::ll128, Protocol::simple};

double figure(const JsonField& field) {
    return field.number(0, kMostFigure, {"a number from 0 to 1000000"});
}

std::array<double, 3> three(const JsonField& field) {
    const auto items = field.items();
    if (items.size() != 3) field.fail({"three numbers"});
    return {figure(items[0]), figure(items[1]), figure(items[2])};
}

std::size_t position_of(Protocol protocol) {
    return static_cast<std::size_t>(std::ranges::find(kProtocols, protocol) - kProtocols.begin());
}

int log2_of(int count) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(count))) - 1;
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

bool offered(Collective kind, Algorithm algorithm, Protocol protocol, int nodes, bool nvls) {
    const bool reduces = kind == Collective::all_reduce;
    const bool gathers = kind == Collective::all_gather || kind == Collective::reduce_scatter;
    const bool rooted = kind == Collective::broadcast || kind == Collective::reduce;
    switch (algorithm) {
    case Algorithm::ring: return reduces || gathers || rooted;
    case Algorithm::tree: return reduces;
    case Algorithm::nvls:
        return nvls && nodes == 1 && (reduces || gathers) && protocol == Protocol::simple;
    case Algorithm::nvls_tree: return nvls && nodes > 1 && reduces && protocol == Protocol::simple;
    default: return false;
    }
}

}  // namespace

NcclTopology read_nccl_topology(const JsonField& field) {
    field.allow_only({"generation", "cpu", "channels_per_rank", "most_channels", "node_channels",
                      "node_bandwidth", "nic_bandwidth", "nvls", "source"});
    const auto count = [&](std::string_view key) {
        return static_cast<int>(field[key].integer(1, 1024, {"a number from 1 to 1024"}));
    };
    NcclTopology topology;
    const std::string generation = field["generation"].text({"a generation of GPUs"});
    const auto known = std::ranges::find(kGenerations, generation);
    if (known == kGenerations.end()) {
        field["generation"].fail({"volta, ampere, hopper or blackwell"});
    }
    topology.generation = static_cast<int>(known - kGenerations.begin());
    const std::string cpu = field["cpu"].text({"\"intel\" or \"amd\""});
    if (cpu != "intel" && cpu != "amd") field["cpu"].fail({"\"intel\" or \"amd\""});
    topology.amd_cpu = cpu == "amd";
    topology.channels_per_rank = count("channels_per_rank");
    topology.most_channels = count("most_channels");
    topology.node_channels = count("node_channels");
    topology.node_bandwidth = figure(field["node_bandwidth"]);
    topology.nic_bandwidth = figure(field["nic_bandwidth"]);
    topology.nvls = field["nvls"].boolean();
    if (!(topology.node_bandwidth > 0)) field["node_bandwidth"].fail({"GB/s > 0"});
    if (!(topology.nic_bandwidth > 0)) field["nic_bandwidth"].fail({"GB/s > 0"});
    return topology;
}

NcclTuning::NcclTuning(const JsonField& constants, const NcclTopology& topology)
    : topology_(topology) {
    const auto latencies = [](const JsonField& field) {
        return Latencies{.ring = three(field["ring"]),
                         .tree = three(field["tree"]),
                         .nvls = three(field["nvls"])[2],
                         .nvls_tree = three(field["nvls_tree"])[2]};
    };
    base_ = latencies(constants["base_latency_us"]);
    hop_ = latencies(constants["hw_latency_us"]["nvlink"]);
    net_ = latencies(constants["hw_latency_us"]["net"]);
    const std::string_view generation = kGenerations[static_cast<std::size_t>(topology.generation)];
    ll_max_inside_ = three(constants["ll_max_bw"][generation]);
    // Between nodes NCCL's rows mean the CPU: its first row an Intel, its second an AMD.
    ll_max_between_ = three(constants["ll_max_bw"][topology.amd_cpu ? "ampere" : "volta"]);
    ring_ll128_max_ = three(constants["per_channel_max_ring_ll128_bw"][generation]);
    tree_ll128_max_ = three(constants["per_channel_max_tree_ll128_bw"][generation]);
    tree_max_ = three(constants["per_channel_max_tree_bw"][generation]);
    nvls_tree_max_ = three(constants["per_channel_max_nvls_tree_bw"][generation]);
    nvls_efficiency_ = figure(constants["nvls_efficiency"][generation]);
    net_overhead_ =
        figure(constants["net_overhead_us"][topology.amd_cpu ? "amd_x86" : "intel_x86"]);
    const JsonField correction = constants["tree_correction"];
    for (const auto& [protocol, key] :
         {std::pair{0U, "ll"}, std::pair{1U, "ll128"}, std::pair{2U, "simple"}}) {
        for (const JsonField& item : correction[key].items()) {
            tree_correction_[protocol].push_back(item.number(0.01, 1, {"a factor in (0, 1]"}));
        }
        // Otherwise a larger call could be cheaper.
        tree_correction_[protocol].push_back(1.0);
    }
}

double NcclTuning::bus(Algorithm algorithm, std::size_t protocol, int ranks, int nodes) const {
    const auto column = static_cast<std::size_t>(std::min(nodes, 3) - 1);
    const int per_node = ranks / nodes;
    const double channels =
        nodes == 1 ? topology_.node_channels
                   : std::min(topology_.most_channels, topology_.channels_per_rank * per_node);
    const double network = per_node * topology_.nic_bandwidth;
    const double ll_max = nodes == 1 ? ll_max_inside_[column] : ll_max_between_[column];
    const double ring =
        nodes == 1 ? topology_.node_bandwidth : std::min(topology_.node_bandwidth, network);
    if (algorithm == Algorithm::ring) {
        if (protocol == 0) return std::min(ll_max, ring / 2);
        if (protocol == 1) return std::min(ring * 0.92, channels * ring_ll128_max_[column]);
        return ring;
    }
    if (algorithm == Algorithm::tree) {
        // With two nodes each uses both directions of its links for its one neighbour.
        const double links = nodes <= 2 ? topology_.node_bandwidth : network;
        double tree = std::min(links * 0.92, channels * tree_max_[column]);
        if (protocol == 0) tree = std::min(tree / 3.8, ll_max);
        if (protocol == 1) {
            tree = std::min(tree * (nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                            channels * tree_ll128_max_[column]);
        }
        return nodes == 1 ? tree : tree * 0.85;
    }
    double inside = topology_.node_bandwidth * nvls_efficiency_ * (channels - 1) / channels * 2;
    if (algorithm == Algorithm::nvls_tree) {
        inside =
            std::min({inside, network * (nodes == 2 ? 2 : 1), channels * nvls_tree_max_[column]});
    }
    return inside;
}

std::optional<NcclTuning::Line> NcclTuning::line(Collective kind, Algorithm algorithm,
                                                 Protocol protocol, int ranks, int nodes) const {
    if (!offered(kind, algorithm, protocol, nodes, topology_.nvls)) return std::nullopt;
    const std::size_t p = position_of(protocol);
    const int per_node = ranks / nodes;
    const auto [steps, inter] = ring_steps(kind, ranks, nodes);
    Line line{.latency = 0, .bandwidth = bus(algorithm, p, ranks, nodes)};
    if (algorithm == Algorithm::tree) {
        // With one rank per node nothing hides the network: its latency is the tree's.
        line.latency =
            base_.tree[p] + 2 * ((per_node - 1) * hop_.tree[p] + log2_of(nodes) * net_.tree[p]);
        line.bandwidth /= 2;
        return line;
    }
    line.bandwidth *= static_cast<double>(ranks) / steps;
    if (algorithm == Algorithm::nvls) {
        line.latency = hop_.nvls;
        // All-reduce pipelines two operations; the others move what the peers hold.
        if (kind != Collective::all_reduce) line.bandwidth *= (per_node - 1.0) / per_node / 2;
    } else if (algorithm == Algorithm::nvls_tree) {
        line.latency = base_.nvls_tree + hop_.nvls_tree + 2 * log2_of(nodes) * net_.nvls_tree;
    } else if (kind == Collective::broadcast || kind == Collective::reduce) {
        line.latency = base_.ring[p] + (nodes == 1 ? hop_ : net_).ring[p];
    } else {
        const double overhead =
            nodes == 1 ? 0 : net_overhead_ * (protocol == Protocol::simple ? 3 : 1);
        const double hop = std::max(hop_.ring[p], overhead);
        const double net = per_node == 1 ? net_.tree[p] : net_.ring[p];
        line.latency = base_.ring[p] + (steps - inter) * hop + inter * net;
    }
    return line;
}

double NcclTuning::microseconds_of(Collective kind, Algorithm algorithm, Protocol protocol,
                                   const Line& line, Bytes bytes, int ranks, int nodes) const {
    const auto size = static_cast<double>(bytes.raw());
    double latency = line.latency;
    double bandwidth = line.bandwidth;
    if (algorithm == Algorithm::tree && size >= 64) {
        const auto& factors = tree_correction_[position_of(protocol)];
        const int octave =
            static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes.raw() / 64))) - 1;
        const auto i = static_cast<std::size_t>(octave);
        if (i + 1 < factors.size()) {
            const double low = 64.0 * static_cast<double>(std::int64_t{1} << octave);
            bandwidth *= factors[i] + (factors[i + 1] - factors[i]) * (size / low - 1);
        }
    }
    const bool plateau = algorithm == Algorithm::ring && protocol == Protocol::simple &&
                         nodes > 1 && kind == Collective::all_reduce &&
                         size / (topology_.most_channels * ranks) >= 64;
    if (plateau) latency *= topology_.generation == 0 ? 1.9 : 1.4;
    return latency + size / (1000 * bandwidth);
}

std::optional<CollectivePrice> NcclTuning::price(Collective kind, Bytes bytes, int ranks,
                                                 int nodes) const {
    std::optional<CollectivePrice> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree}) {
        for (const Protocol protocol : kProtocols) {
            const auto found = line(kind, algorithm, protocol, ranks, nodes);
            if (!found || !(found->bandwidth > 0)) continue;
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

NcclTuningModel::NcclTuningModel(NcclTuning tuning, std::string name)
    : tuning_(std::move(tuning)), name_(std::move(name)) {}

std::optional<CollectivePrice> NcclTuningModel::price(const CollectiveCall& call,
                                                      const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    if (links->ranks_per_node == 0) return std::nullopt;
    return tuning_.price(call.kind, call.bytes, links->ranks, links->nodes);
}

}  // namespace partita::cost
