// SPDX-License-Identifier: Apache-2.0
//
// NCCL's published tuning model: a latency and a bandwidth for each algorithm and protocol, and the
// cheapest pair for each call. n ranks on m nodes, g = n/m of each (rounded down, as NCCL does):
//
//     time      = latency + bytes amount / bus
//
//                      latency                                       amount      bus
//     ring             base + (steps - inter) hop + inter net        steps / n   node or network
//     tree             base + 2 ((g-1) hop + log2(m) net)            2           0.92 of it, capped
//     NVLS             hop (+ net between nodes)                     steps / n   2 x 0.85 of the node
//     NVLS tree        hop + 2 log2(m) net                           steps / n   as NVLS, network
//     CollNet direct   2 (min(1, g-1) hop + 0.4 (g-1)) + net         2           node or network
//     CollNet chain    2 (g-1) hop + net                             2           node or network
//     PAT              base + log2(m) net / 3.5 + 2.8 n              1           0.75 of the network
//
// steps of the ring: 2 (n-1) for all-reduce, n-1 for all-gather and reduce-scatter, n else; inter
// the same of m nodes. bus is capped per algorithm, protocol and generation of GPUs.
//
// net includes what the network takes beyond NCCL's constants, for Simple twice: it also flushes.
//
// What is offered: all-reduce: ring, tree, NVLS, NVLS tree and CollNet; all-gather, reduce-scatter:
// ring, NVLS (one node) and PAT (one rank per node); broadcast, reduce: ring. NVLS where the node's
// switches reduce, CollNet where the network's do (direct: on a node without mesh), LL128 where
// NVLink joins the GPUs of a node.
//
// Optimal: no claim; it is what NCCL decides by. Threads: const. Errors: none.
// Source: NVIDIA/nccl src/graph/tuning.cc as cited in nccl_topology.h; REFERENCES.md 2.
// Differs: the tree's correction factors are interpolated between powers of two, where NCCL jumps,
// so that no larger call is cheaper. Of NVLS tree NCCL 2.27.5 had other constants; see the test. A
// tree over two nodes is capped by their ports, too, which GPUs may share. CollNet direct counts
// one port for each GPU. CollNet and NVLS between nodes serve all-reduce only: for other
// collectives NCCL asks the network's plugin.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/collectives/nccl_topology.h"

namespace partita::cost {

/// The protocols in the order of NCCL's tables.
inline constexpr std::array kNcclProtocols = {Protocol::ll, Protocol::ll128, Protocol::simple};

class NcclTuning {
public:
    NcclTuning(std::shared_ptr<const NcclConstants> constants, NcclTopology topology);

    struct Line {
        double base = 0;     ///< microseconds of latency that do not depend on ranks
        double inside = 0;   ///< of hops inside nodes
        double between = 0;  ///< of hops between nodes
        double amount = 0;   ///< times the call's bytes: what every link carries
        double bus = 0;      ///< GB/s

        [[nodiscard]] double latency() const { return base + inside + between; }
        [[nodiscard]] double bandwidth() const { return bus / amount; }
    };
    /// What NCCL prints with NCCL_DEBUG=INFO; null: the pair is not offered. `ranks` >= 2.
    [[nodiscard]] std::optional<Line> line(Collective kind, Algorithm algorithm, Protocol protocol,
                                           int ranks, int nodes) const;

    /// The cheapest pair; null for a collective that NCCL's model does not know.
    [[nodiscard]] std::optional<CollectivePrice> price(Collective kind, Bytes bytes, int ranks,
                                                       int nodes) const;

    /// Ring or tree and a protocol, and the sizes for which it is the cheapest of those.
    struct Choice {
        Algorithm algorithm = Algorithm::ring;
        Protocol protocol = Protocol::simple;
        Line line;
        double from = 0;
        double to = std::numeric_limits<double>::infinity();
    };
    struct Choices {
        std::array<Choice, 6> items{};
        std::size_t count = 0;
        [[nodiscard]] std::span<const Choice> all() const { return std::span(items).first(count); }
    };
    /// Where NCCL switches between rings and trees, LL, LL128 and Simple. Together they cover every
    /// size. Differs: without the tree's correction factors.
    [[nodiscard]] Choices choices(Collective kind, int ranks, int nodes) const;

    /// For a group whose nodes hold different numbers of ranks: NCCL counts n / m of each, rounded
    /// down, but the node with the fewest has the least network.
    [[nodiscard]] NcclTuning for_nodes_of(const GroupLinks& links) const;

    [[nodiscard]] const NcclTopology& topology() const { return topology_; }
    [[nodiscard]] int channels(int ranks, int nodes) const;
    /// GB/s that the LL protocol reaches at most.
    [[nodiscard]] double ll_max(int nodes) const;

private:
    [[nodiscard]] bool offers(Collective kind, Algorithm algorithm, Protocol protocol, int ranks,
                              int nodes) const;
    [[nodiscard]] double ring_bus(std::size_t protocol, int ranks, int nodes) const;
    [[nodiscard]] double tree_bus(std::size_t protocol, int ranks, int nodes) const;
    [[nodiscard]] double nvls_bus(Algorithm algorithm, Collective kind, int ranks, int nodes) const;
    [[nodiscard]] double net_of(double own, std::size_t protocol) const;
    [[nodiscard]] Line ring_line(Collective kind, std::size_t protocol, int ranks, int nodes) const;
    [[nodiscard]] double plateau(Collective kind, Algorithm algorithm, Protocol protocol,
                                 int nodes) const;
    [[nodiscard]] double microseconds_of(Collective kind, Algorithm algorithm, Protocol protocol,
                                         const Line& line, Bytes bytes, int ranks, int nodes) const;

    std::shared_ptr<const NcclConstants> constants_;
    NcclTopology topology_;
};

/// The tuning model over the nodes of a machine.
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
