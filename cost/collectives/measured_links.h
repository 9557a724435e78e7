// SPDX-License-Identifier: Apache-2.0
//
// Collectives measured on one machine, asked about another whose links differ:
//
//     time(S) = t(0) + rounds (latency - latency')  +  (t(S) - t(0)) bus' / bus
//
//     t, latency', bus'   as measured, there
//     rounds              ceil(log2 ranks): no algorithm takes fewer
//     latency             of a hop: of the network where the group spans nodes
//     bus                 bytes/s of a ring over the group: the least of the node's links and of the
//                         ports of its ranks, as NCCL counts them (nccl_links.h)
//
// The j-th device of a node stands for the j-th of the measured machine's. Where that machine has
// no such group it says nothing, and what the links say counts. With equal links every time is t.
//
// Threads: const. Errors: none. Differs from a measurement: what NCCL chooses is taken to stay.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// Do the two have the same links between the same devices: all that transfers depend on?
bool same_links(const Machine& one, const Machine& other);

class MeasuredLinks final : public CollectiveModel {
public:
    /// `model`: as measured on `measured`. For `machine`, which alone it may be asked about.
    MeasuredLinks(std::shared_ptr<const CollectiveModel> model, Machine measured,
                  const Machine& machine);
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override;

private:
    std::shared_ptr<const CollectiveModel> model_;  ///< shared, as collective_model_of() returns it
    Machine measured_;
    std::vector<int> twins_;  ///< by device: the measured machine's; -1: it has none
};

}  // namespace partita::cost
