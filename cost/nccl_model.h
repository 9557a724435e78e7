// SPDX-License-Identifier: Apache-2.0
//
// The NCCL-like model: the form of NCCL's tuning model, with constants fitted to measured times of
// one machine. The cheapest of ring and tree (all-reduce only) with LL, LL128 and Simple:
//
//     ring   base_p + (steps - inter) hop_p + inter net_p + S (steps / n / rate_p + copy)
//     tree   base_p + 2 ((n/m - 1) hop_p + log2(m) net_p) + S (2 / rate_p + copy)
//
// for n ranks on m nodes; steps = 2 (n-1) for all-reduce and n-1 else, inter = the same of m.
//
//     rate_p = share_p x rate x links(n) in one node; at most net_share_p x net_rate between nodes
//
// links(n) is the topology's: how many links of a mesh the ring over the first n devices can use
// (1 on a switch). copy, the time to read and write a byte on the device, is what makes two ranks
// slower per byte than n: measured bus bandwidths of A100 rise from 197 GB/s on 2 ranks to 229 on 8.
//
// Threads: const. Errors: none. Fitted by bench/collective_fit.h. Source of the form: NCCL
// src/graph/tuning.cc (nccl_tuning.h), of copy and links: the measurements in data/collectives.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "cost/collective.h"
#include "graph/json.h"
#include "graph/units.h"

namespace partita::cost {

inline constexpr std::size_t kNcclConstantCount = 16;

/// What the constants mean, in the order of NcclConstants::values. Microseconds, GB/s, and copy in
/// picoseconds per byte. All > 0.
inline constexpr std::array<std::string_view, kNcclConstantCount> kNcclConstants = {
    "base_ll",      "base_ll128",      "base_simple", "hop_ll",   "hop_ll128",   "hop_simple",
    "net_ll",       "net_ll128",       "net_simple",  "share_ll", "share_ll128", "rate",
    "net_share_ll", "net_share_ll128", "net_rate",    "copy"};

struct NcclConstants {
    std::array<double, kNcclConstantCount> values{};
    std::map<int, double> links{};  ///< by number of ranks; ranks not listed: 1
};

/// Reads {"base_ll": 6.6, ..., "links": {"2": 1, ...}}. Throws InputError.
NcclConstants read_nccl_constants(const graph::JsonField& field);

struct NcclTime {
    double microseconds = 0;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
};

/// `ranks` >= 2, evenly on `nodes`. Collectives other than all-reduce go around the ring.
NcclTime nccl_time(const NcclConstants& constants, Collective kind, Bytes bytes, int ranks,
                   int nodes);

/// The fitted model for the collectives it was fitted to.
class NcclModel final : public CollectiveModel {
public:
    NcclModel(std::map<Collective, NcclConstants> constants, std::string name);
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return name_; }

private:
    std::map<Collective, NcclConstants> constants_;
    std::string name_;
};

}  // namespace partita::cost
