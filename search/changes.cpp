// SPDX-License-Identifier: Apache-2.0
#include "search/changes.h"

namespace partita::search {

plan::Strategy apply(plan::Strategy base, const Changes& changes) {
    for (const auto& [op, config] : changes.configs) base.configs[op.index()] = config;
    if (!changes.updates.empty()) base.updates.resize(base.configs.size());
    for (const auto& [op, update] : changes.updates) base.updates[op.index()] = update;
    if (changes.policy) base.policy = *changes.policy;
    return base;
}

}  // namespace partita::search
