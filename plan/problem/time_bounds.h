// SPDX-License-Identifier: Apache-2.0
//
// TimeBounds: what lower bounds may count on. However an op is cut into parts and micro-batches,
// its phases take no less than that in sum. Without measured costs it is the time of the whole,
// unless windows leave out a share of an operand; with measured costs, the roofline times the least
// share of it that was measured, as parts of any size sum up to that.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "graph/op_graph.h"
#include "plan/problem/batch_choices.h"
#include "plan/problem/graph_facts.h"
#include "plan/problem/op_constraints.h"
#include "plan/problem/prices.h"

namespace partita::plan {

class TimeBounds {
public:
    /// Facts and prices must outlive it.
    TimeBounds(const GraphFacts& facts, const OpConstraints& constraints, const Prices& prices,
               const BatchChoices& batch);

    /// Of all parts of a phase in sum, on that device.
    [[nodiscard]] Time least_forward_time(graph::OpId op, int device) const {
        return least_.empty() ? prices_.forward_time(op, device) : least(op, device).forward;
    }
    [[nodiscard]] Time least_backward_time(graph::OpId op, int device) const {
        return least_.empty() ? prices_.backward_time(op, device) : least(op, device).backward;
    }
    [[nodiscard]] Time least_update_time(graph::OpId op, int device) const {
        return least_.empty() ? prices_.update_time(op, device) : least(op, device).update;
    }
    /// Of one more contribution to all of the gradient of `t`.
    [[nodiscard]] Time least_accumulate_time(graph::TensorId t, int device) const;
    /// No single task of these is shorter: the launch interval, or less where shorter ones were
    /// measured.
    [[nodiscard]] Time least_task_time(graph::OpId op, int device) const;
    /// Smallest possible time of all phases of the whole op over its allowed devices.
    [[nodiscard]] Time best_time(graph::OpId op) const { return best_time_[op.index()]; }

private:
    /// The least that the phases of an op take in sum, and any task of it.
    struct Least {
        Time forward;
        Time backward;
        Time update;
        Time task;
    };
    [[nodiscard]] const Least& least(graph::OpId op, int device) const {
        return least_[prices_.index(op, device)];
    }
    [[nodiscard]] Least least_of_parts(graph::OpId op, int device) const;

    const GraphFacts& facts_;
    const Prices& prices_;
    std::vector<Least> least_;     ///< by Prices::index(); empty: prices of whole ops are the least
    std::vector<Time> best_time_;  ///< per op
};

}  // namespace partita::plan
