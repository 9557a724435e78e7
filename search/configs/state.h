// SPDX-License-Identifier: Apache-2.0
//
// A strategy whose decisions are numbers of a config table: what moves look at, and what a chain is
// in.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/strategy/strategy.h"
#include "search/configs/config_table.h"
#include "search/configs/state_change.h"

namespace partita::search {

class State {
public:
    /// `table` must outlive it.
    State(ConfigTable& table, const plan::Strategy& strategy);

    [[nodiscard]] const DecisionId& decision(graph::OpId op) const { return ops_[op.index()]; }
    [[nodiscard]] ConfigId config(graph::OpId op) const { return ops_[op.index()].config; }
    [[nodiscard]] UpdateId update(graph::OpId op) const { return ops_[op.index()].update; }
    [[nodiscard]] const plan::Policy& policy() const { return policy_; }
    /// ConfigTable::micro_batches_id() of its number of micro-batches.
    [[nodiscard]] MicroBatchesId micro_batches_id() const { return micro_batches_id_; }
    [[nodiscard]] std::size_t op_count() const { return ops_.size(); }

    /// O(changes).
    void apply(const Changes& changes);
    [[nodiscard]] plan::Strategy strategy() const;

private:
    ConfigTable* table_;
    std::vector<DecisionId> ops_;  ///< indexed by OpId
    plan::Policy policy_;
    MicroBatchesId micro_batches_id_ = 0;
};

}  // namespace partita::search
