// SPDX-License-Identifier: Apache-2.0
//
// What NCCL's tuning model looks at: NCCL's own constants, which are the same everywhere, and the
// topology of one machine as NCCL's search would find it. Bandwidths in GB/s (10^9 bytes).
//
// Threads: values. Errors: InputError naming the field. Source of the constants: NVIDIA/nccl
// src/graph/tuning.cc as cited in data/collectives/nccl_tuning_constants.json.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace partita::cost {

/// As files name them; the first is Volta and all before.
inline constexpr std::array<std::string_view, 4> kNcclGenerations = {"volta", "ampere", "hopper",
                                                                     "blackwell"};

/// Of one machine.
struct NcclTopology {
    int generation = 1;  ///< its place in kNcclGenerations
    bool amd_cpu = false;
    int channels_per_rank = 2;  ///< between nodes, up to most_channels
    int most_channels = 8;
    int node_channels = 24;     ///< inside one node
    double node_bandwidth = 0;  ///< of all channels of one node's ring
    double nic_bandwidth = 0;   ///< of one rank's share of the network
    bool nvls = false;          ///< the node's switch reduces
    bool collnet = false;       ///< the network's switches reduce
    bool pci = false;           ///< GPUs of a node are joined by PCI Express, not NVLink
    double net_latency = 0;     ///< microseconds of the network beyond NCCL's own
    /// Of a mesh: how many links a ring over so many ranks of a node finds; node_bandwidth is that
    /// of the largest. Not listed, and on a switch: all.
    std::map<int, double> links{};

    /// The part of node_bandwidth that a ring over `ranks` ranks of a node finds.
    [[nodiscard]] double share_of_links(int ranks) const;
};

/// Reads a machine's topology.
NcclTopology read_nccl_topology(const JsonField& field);

using PerProtocol = std::array<double, 3>;  ///< LL, LL128, Simple
using PerNodes = std::array<double, 3>;     ///< 1 node, 2 nodes, more

/// Microseconds; algorithms with one protocol have one figure.
struct NcclLatencies {
    PerProtocol ring{};
    PerProtocol tree{};
    double nvls = 0;
    double nvls_tree = 0;
    double collnet_direct = 0;
    double collnet_chain = 0;
    double pat = 0;
};

/// Of one generation of GPUs.
struct NcclGeneration {
    PerNodes ll_max{};
    PerNodes ring_ll128_max{};  ///< per channel, as the next three
    PerNodes tree_ll128_max{};
    PerNodes tree_max{};
    PerNodes nvls_tree_max{};
    double nvls_efficiency = 0;
};

struct NcclConstants {
    NcclLatencies base;
    NcclLatencies nvlink;
    NcclLatencies pci;
    NcclLatencies net;
    std::array<NcclGeneration, 4> generations;
    double overhead_intel = 1;
    double overhead_amd = 2;
    /// Factors of a tree's bandwidth at 64 B, 128 B, ...; 1 beyond the last.
    std::array<std::vector<double>, 3> tree_correction;
};

/// Reads the root of nccl_tuning_constants.json.
NcclConstants read_nccl_constants(const JsonField& root);

/// Those of the data folder, read once.
std::shared_ptr<const NcclConstants> nccl_constants();

}  // namespace partita::cost
