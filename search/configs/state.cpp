// SPDX-License-Identifier: Apache-2.0
#include "search/configs/state.h"

namespace partita::search {

using graph::OpId;

State::State(ConfigTable& table, const plan::Strategy& strategy)
    : table_(&table),
      policy_(strategy.policy),
      micro_batches_id_(table.micro_batches_id(policy_.micro_batches)) {
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        ops_.push_back(table.id(OpId(i), strategy.ops[i]));
    }
}

void State::apply(const Changes& changes) {
    for (const auto& [op, decision] : changes.ops) ops_[op.index()] = decision;
    if (!changes.policy) return;
    policy_ = *changes.policy;
    micro_batches_id_ = table_->micro_batches_id(policy_.micro_batches);
}

plan::Strategy State::strategy() const {
    plan::Strategy strategy;
    strategy.policy = policy_;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        strategy.ops.push_back(table_->decision(OpId(i), ops_[i]));
    }
    return strategy;
}

}  // namespace partita::search
