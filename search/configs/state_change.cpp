// SPDX-License-Identifier: Apache-2.0
#include "search/configs/state_change.h"

#include "search/configs/config_table.h"

namespace partita::search {

void apply(const Changes& changes, const ConfigTable& table, plan::Strategy& strategy) {
    for (const auto& [op, config] : changes.configs) {
        strategy.configs[op.index()] = table.config(op, config);
    }
    if (!changes.updates.empty()) strategy.updates.resize(strategy.configs.size());
    for (const auto& [op, update] : changes.updates) {
        strategy.updates[op.index()] = table.update(op, update);
    }
    if (changes.policy) strategy.policy = *changes.policy;
}

}  // namespace partita::search
