// SPDX-License-Identifier: Apache-2.0
//
// Changes of a strategy: what a move proposes, and all that an evaluation of it needs to know beside
// the strategy that it starts from. Applying them is the only way in which chains change state.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/strategy.h"

namespace partita::search {

struct Changes {
    /// By op, rising, each once; all differ from the base.
    std::vector<std::pair<graph::OpId, plan::OpConfig>> configs;
    std::vector<std::pair<graph::OpId, plan::UpdateConfig>> updates;
    std::optional<plan::Policy> policy;

    [[nodiscard]] bool empty() const { return configs.empty() && updates.empty() && !policy; }
};

/// The base with the changes.
plan::Strategy apply(plan::Strategy base, const Changes& changes);

}  // namespace partita::search
