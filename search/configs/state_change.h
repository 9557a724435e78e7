// SPDX-License-Identifier: Apache-2.0
//
// Changes of a state: what a move proposes, and all that an evaluation of it needs to know beside
// the state that it starts from. Applying them is the only way in which chains change state.
#pragma once

#include <optional>
#include <vector>

#include "plan/strategy/strategy.h"
#include "search/configs/config_id.h"

namespace partita::search {

class ConfigTable;

struct DecisionChange {
    graph::OpId op;
    DecisionId decision;
    friend bool operator==(const DecisionChange&, const DecisionChange&) = default;
};

struct Changes {
    /// By op, rising, each once; all differ from the base.
    std::vector<DecisionChange> ops;
    std::optional<plan::Policy> policy;
    friend bool operator==(const Changes&, const Changes&) = default;

    [[nodiscard]] bool empty() const { return ops.empty() && !policy; }
    /// Keeps the memory for the next ones.
    void clear() {
        ops.clear();
        policy.reset();
    }
};

/// Changes the strategy of the state that they are of; O(changes). (State::apply() is for the
/// state.)
void apply(const Changes& changes, const ConfigTable& table, plan::Strategy& strategy);

}  // namespace partita::search
