// SPDX-License-Identifier: Apache-2.0
#include "search/configs/state_change.h"

#include "search/configs/config_table.h"

namespace partita::search {

void apply(const Changes& changes, const ConfigTable& table, plan::Strategy& strategy) {
    for (const auto& [op, decision] : changes.ops) {
        strategy.ops[op.index()] = table.decision(op, decision);
    }
    if (changes.policy) strategy.policy = *changes.policy;
}

}  // namespace partita::search
