// SPDX-License-Identifier: Apache-2.0
//
// The NCCL-like model: NCCL decides as it publishes (nccl_tuning.h: where it switches between ring
// and tree, LL, LL128 and Simple), and what it decides takes the time of the same formulas with
// constants fitted to measured times of one machine:
//
//     time = base x base_a,p + hop x inside_a,p + net_p x between_a,p   NCCL's latencies, scaled
//          + channel x min(channels, S / grain_a,p)                     starting the channels
//          + S (amount / bus_p + copy)                                  moving the bytes
//     and never below launch x g
//
//     bus_p    = rate x links(g) in one node; at most g nic_rate between nodes; of it
//                LL half and at most ll x NCCL's figure, LL128 share_ll128, a tree 0.92 or 0.85
//     grain    = bytes from which NCCL opens one more channel: 8 x 512 threads for LL (a ring: n
//                times that), 8 x 640 for LL128, 64 x 512 for Simple
//
// for S bytes on n ranks of m nodes, g = n/m of each. channel, launch and copy are ours. Channels
// are what makes real base latencies three times NCCL's own, and small calls on 2 ranks slower per
// byte than on 8. copy, a byte's way through device memory, makes two ranks slower per byte than n:
// bus bandwidth of A100 rises from 197 GB/s on 2 ranks to 229 on 8. launch is the host's: one
// process starts the ranks of its node one after the other.
//
// Prices never fall when bytes grow: a call costs no more than any larger one would, for NCCL could
// be given that.
//
// Threads: const. Errors: none. Fitted by bench/collective_fit.h. Source of the form: NCCL
// src/graph/tuning.cc (nccl_tuning.h); of the grain: src/include/comm.h and src/enqueue.cc.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/collectives/nccl_tuning.h"

namespace partita::cost {

/// Constants of one machine. launch and channel: microseconds; base, hop, net and ll: factors of
/// NCCL's own; share_ll128: a part; rate: GB/s of a ring over a whole node, nic_rate: of one rank's
/// share of the network; copy: picoseconds per byte. All > 0.
struct NcclFit {
    double launch = 0;
    double channel = 0;
    double base = 0;
    double hop = 0;
    double net_ll = 0;
    double net_ll128 = 0;
    double net_simple = 0;
    double ll = 0;
    double share_ll128 = 0;
    double rate = 0;
    double nic_rate = 0;
    double copy = 0;
};

/// Their names in files, and where they are.
struct NcclFitField {
    std::string_view name;
    double NcclFit::*value;
};
inline constexpr std::array kNcclFitFields = {NcclFitField{"launch", &NcclFit::launch},
                                              NcclFitField{"channel", &NcclFit::channel},
                                              NcclFitField{"base", &NcclFit::base},
                                              NcclFitField{"hop", &NcclFit::hop},
                                              NcclFitField{"net_ll", &NcclFit::net_ll},
                                              NcclFitField{"net_ll128", &NcclFit::net_ll128},
                                              NcclFitField{"net_simple", &NcclFit::net_simple},
                                              NcclFitField{"ll", &NcclFit::ll},
                                              NcclFitField{"share_ll128", &NcclFit::share_ll128},
                                              NcclFitField{"rate", &NcclFit::rate},
                                              NcclFitField{"nic_rate", &NcclFit::nic_rate},
                                              NcclFitField{"copy", &NcclFit::copy}};

/// Reads {"launch": 3, ...}. Throws InputError.
NcclFit read_nccl_fit(const JsonField& field);

struct NcclTime {
    double microseconds = 0;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
};

/// `ranks` >= 2. all-to-all moves as much as an all-gather, in as many steps. Others than those of
/// NcclTuning::choices: infinite.
NcclTime nccl_time(const NcclFit& fit, const NcclTuning& tuning, Collective kind, Bytes bytes,
                   int ranks, int nodes);

/// The fitted model for the collectives it was fitted to. Answers all-to-all in one node only: its
/// formula knows nothing of a network that every pair shares.
class NcclModel final : public CollectiveModel {
public:
    NcclModel(std::map<Collective, NcclFit> fits, NcclTuning tuning, std::string name);
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return name_; }

private:
    std::map<Collective, NcclFit> fits_;
    NcclTuning tuning_;
    std::string name_;
};

}  // namespace partita::cost
