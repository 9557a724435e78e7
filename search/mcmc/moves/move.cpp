// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/move.h"

#include <algorithm>
#include <array>

#include "search/mcmc/moves/change_degrees.h"
#include "search/mcmc/moves/change_devices.h"
#include "search/mcmc/moves/change_micro_batches.h"
#include "search/mcmc/moves/change_recompute.h"
#include "search/mcmc/moves/change_repeats.h"
#include "search/mcmc/moves/change_sharding.h"
#include "search/mcmc/moves/copy_config.h"
#include "search/mcmc/moves/shift_border.h"
#include "search/mcmc/moves/swap_devices.h"

namespace partita::search {

namespace {

constexpr std::array kMoves = {
    Move{.name = "change-degrees",
         .summary = "another split of an op, or of its group, on the same devices",
         .draw = change_degrees,
         .weight = 20},
    Move{.name = "change-devices",
         .summary = "an op or a group on other devices, as many or not",
         .draw = change_devices,
         .weight = 8},
    Move{.name = "swap-devices",
         .summary = "two ops or groups exchange their devices",
         .draw = swap_devices,
         .weight = 3},
    Move{.name = "copy-config",
         .summary = "ops around one take over its config, or a new one",
         .draw = copy_config,
         .weight = 25},
    Move{.name = "change-repeats",
         .summary = "one of the moves above in all repetitions of a block",
         .draw = change_repeats,
         .weight = 25},
    Move{.name = "change-sharding",
         .summary = "another way to keep a parameter and to update it",
         .draw = change_sharding,
         .weight = 18},
    Move{.name = "shift-border",
         .summary = "some ops at the border of two stages go to the other one",
         .draw = shift_border,
         .weight = 4},
    Move{.name = "change-micro-batches",
         .summary = "twice or half as many micro-batches, or another schedule",
         .draw = change_micro_batches,
         .weight = 2},
    Move{.name = "change-recompute",
         .summary = "layer blocks recompute something else for the backward, or nothing",
         .draw = change_recompute,
         .weight = 8,
         .applies = may_choose_recompute},
};

}  // namespace

std::span<const Move> move_table() {
    return kMoves;
}

const Move* find_move(std::string_view name) {
    const auto* at = std::find_if(kMoves.begin(), kMoves.end(),
                                  [&](const Move& move) { return move.name == name; });
    return at == kMoves.end() ? nullptr : at;
}

bool propose(const Move& move, const State& state, Random& random, ProposalBuilder& builder,
             Proposal& proposal) {
    builder.start(state);
    const std::optional<double> log_ratio = move.draw(builder.space(), random, builder);
    if (!log_ratio) return false;
    proposal.log_ratio = *log_ratio;
    return builder.finish(proposal.changes);
}

}  // namespace partita::search
