// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/incremental/lowering.h"
#include "search/configs/config_table.h"
#include "search/configs/state_change.h"

namespace partita::search {

/// Changes with their decisions written out, for an evaluator that knows no table.
class WrittenChange {
public:
    /// Valid until the next call, and as long as `changes`.
    const plan::StrategyChange& write(const Changes& changes, const ConfigTable& table) {
        ops_.clear();
        for (const auto& [op, id] : changes.ops) ops_.push_back({op, table.decision(op, id)});
        change_ = {ops_, changes.policy ? &*changes.policy : nullptr};
        return change_;
    }

private:
    std::vector<plan::OpChange> ops_;
    plan::StrategyChange change_;
};

}  // namespace partita::search
