// SPDX-License-Identifier: Apache-2.0
//
// TransferPrices: what copies of tensors and collectives take on a machine, alone on their routes.
#pragma once

#include <memory>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"

namespace partita::plan {

class TransferPrices {
public:
    /// Graph and machine must outlive it. `measured` wins over what the machine names; null:
    /// nothing else is known of copies and collectives. Throws InputError when the machine names a
    /// model of collectives that it cannot have (cost::collective_model_of()).
    TransferPrices(const graph::OpGraph& graph, const cost::Machine& machine,
                   std::shared_ptr<const cost::CollectiveModel> measured);

    /// `measured`, then what the machine names.
    [[nodiscard]] const cost::CollectiveModel& collectives() const { return *collectives_; }

    /// Of a copy of a tensor between two devices, of all of it or of so many bytes. Given by the
    /// workload file when there is one.
    [[nodiscard]] Time copy_time(graph::TensorId t, int from, int to) const {
        return copy_time(t, graph_.tensor(t).bytes(), from, to);
    }
    [[nodiscard]] Time copy_time(graph::TensorId t, Bytes bytes, int from, int to) const {
        return copy_price(t, bytes, from, to).time;
    }
    [[nodiscard]] cost::Price copy_price(graph::TensorId t, Bytes bytes, int from, int to) const;
    /// Of one collective over the machine's links, and how it is done.
    [[nodiscard]] cost::CollectivePrice collective_price(const cost::CollectiveCall& call) const;

private:
    const graph::OpGraph& graph_;
    const cost::Machine& machine_;
    bool measures_copies_;
    std::shared_ptr<const cost::CollectiveModel> collectives_;  ///< parts may be the caller's too
};

}  // namespace partita::plan
