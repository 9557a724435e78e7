// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "plan/incremental/lowering.h"
#include "search/configs/config_table.h"
#include "search/configs/state_change.h"

namespace partita::search {

/// Changes with their configs written out, for an evaluator that knows no table.
class WrittenChange {
public:
    /// Valid until the next call, and as long as `changes`.
    const plan::StrategyChange& write(const Changes& changes, const ConfigTable& table) {
        configs_.clear();
        updates_.clear();
        for (const auto& [op, id] : changes.configs)
            configs_.emplace_back(op, table.config(op, id));
        for (const auto& [op, id] : changes.updates)
            updates_.emplace_back(op, table.update(op, id));
        change_ = {configs_, updates_, changes.policy ? &*changes.policy : nullptr};
        return change_;
    }

private:
    std::vector<std::pair<graph::OpId, plan::OpConfig>> configs_;
    std::vector<std::pair<graph::OpId, plan::UpdateConfig>> updates_;
    plan::StrategyChange change_;
};

}  // namespace partita::search
