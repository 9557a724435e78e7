// SPDX-License-Identifier: Apache-2.0
//
// NCCL's published tuning model: a latency and a bandwidth for each algorithm and protocol, and the
// cheapest pair for each call.
//
//     time      = latency + bytes / bandwidth
//     latency   ring: base + (steps - inter) hop + inter net     steps of the ring, inter of them
//               tree: base + 2 ((n/m - 1) hop + log2(m) net)     through the network; n ranks,
//               NVLS: hop;  NVLS tree: hop + 2 log2(m) net       m nodes
//     bandwidth ring: bus x n / steps;  tree: bus / 2;  bus = channels x bandwidth of a channel,
//               capped per algorithm, protocol and generation of GPUs
//
// Constants come from data/collectives/nccl_tuning_constants.json. all-reduce: ring, tree, NVLS
// (one node), NVLS tree; all-gather, reduce-scatter: ring, NVLS (one node); broadcast, reduce: ring.
//
// Optimal: no claim; it is what NCCL decides by. Threads: const. Errors: InputError for a bad file.
// Source: NVIDIA/nccl src/graph/tuning.cc as cited in the data file; REFERENCES.md 2.
// Differs: the tree's correction factors are interpolated between powers of two, where NCCL jumps,
// so that no larger call is cheaper. Of NVLS tree NCCL 2.27.5 had other constants; see the test.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "cost/collective.h"
#include "graph/json.h"
#include "graph/units.h"

namespace partita::cost {

/// Of one machine, as NCCL's topology search would find it. Bandwidths in GB/s (10^9 bytes).
struct NcclTopology {
    int generation = 1;  ///< 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell
    bool amd_cpu = false;
    int channels_per_rank = 2;  ///< between nodes, up to most_channels
    int most_channels = 8;
    int node_channels = 24;     ///< inside one node
    double node_bandwidth = 0;  ///< of all channels of one node's ring
    double nic_bandwidth = 0;   ///< of one rank's share of the network
    bool nvls = false;          ///< the node's switch reduces
};

/// Reads a machine's topology.
NcclTopology read_nccl_topology(const graph::JsonField& field);

class NcclTuning {
public:
    /// `constants`: the root of nccl_tuning_constants.json.
    NcclTuning(const graph::JsonField& constants, const NcclTopology& topology);

    struct Line {
        double latency = 0;    ///< microseconds
        double bandwidth = 0;  ///< GB/s
    };
    /// What NCCL prints with NCCL_DEBUG=INFO; null: the pair is not offered. `ranks` >= 2, evenly on
    /// `nodes`.
    [[nodiscard]] std::optional<Line> line(Collective kind, Algorithm algorithm, Protocol protocol,
                                           int ranks, int nodes) const;

    /// The cheapest pair; null for a collective that NCCL's model does not know.
    [[nodiscard]] std::optional<CollectivePrice> price(Collective kind, Bytes bytes, int ranks,
                                                       int nodes) const;

private:
    using PerProtocol = std::array<double, 3>;  ///< LL, LL128, Simple
    using PerNodes = std::array<double, 3>;     ///< 1 node, 2 nodes, more
    struct Latencies {
        PerProtocol ring;
        PerProtocol tree;
        double nvls = 0;
        double nvls_tree = 0;
    };

    [[nodiscard]] double bus(Algorithm algorithm, std::size_t protocol, int ranks, int nodes) const;
    [[nodiscard]] double microseconds_of(Collective kind, Algorithm algorithm, Protocol protocol,
                                         const Line& line, Bytes bytes, int ranks, int nodes) const;

    NcclTopology topology_;
    Latencies base_;
    Latencies hop_;
    Latencies net_;
    PerNodes ll_max_inside_;
    PerNodes ll_max_between_;
    PerNodes ring_ll128_max_;
    PerNodes tree_ll128_max_;
    PerNodes tree_max_;
    PerNodes nvls_tree_max_;
    double nvls_efficiency_ = 0;
    double net_overhead_ = 1;
    std::array<std::vector<double>, 3> tree_correction_;
};

/// The tuning model over the nodes of a machine; "I do not know" for uneven nodes.
class NcclTuningModel final : public CollectiveModel {
public:
    NcclTuningModel(NcclTuning tuning, std::string name);
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return name_; }

private:
    NcclTuning tuning_;
    std::string name_;
};

}  // namespace partita::cost
