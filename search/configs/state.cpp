// SPDX-License-Identifier: Apache-2.0
#include "search/configs/state.h"

namespace partita::search {

using graph::OpId;

State::State(ConfigTable& table, const plan::Strategy& strategy)
    : table_(&table), policy_(strategy.policy), phase_(table.phase(policy_.micro_batches)) {
    for (std::size_t i = 0; i < strategy.configs.size(); ++i) {
        configs_.push_back(table.id(OpId(i), strategy.configs[i]));
        updates_.push_back(table.id(OpId(i), strategy.update(OpId(i))));
    }
}

void State::apply(const Changes& changes) {
    for (const auto& [op, config] : changes.configs) configs_[op.index()] = config;
    for (const auto& [op, update] : changes.updates) updates_[op.index()] = update;
    if (!changes.policy) return;
    policy_ = *changes.policy;
    phase_ = table_->phase(policy_.micro_batches);
}

plan::Strategy State::strategy() const {
    plan::Strategy strategy;
    strategy.policy = policy_;
    for (std::size_t i = 0; i < configs_.size(); ++i) {
        strategy.configs.push_back(table_->config(OpId(i), configs_[i]));
        strategy.updates.push_back(table_->update(OpId(i), updates_[i]));
    }
    return strategy;
}

}  // namespace partita::search
