// SPDX-License-Identifier: Apache-2.0
#include "search/moves/target.h"

#include <utility>

namespace partita::search {

using graph::OpId;

Target draw_target(const SearchSpace& space, Random& random) {
    const OpId op = space.draw_op(random);
    if (random.below(3) == 0) return {.op = op, .group = false};
    return {.op = space.leader(op), .group = true};
}

void give(Draft& draft, const Target& target, plan::OpConfig config) {
    draft.set(target.op, std::move(config));
    if (target.group) draft.spread(target.op);
}

void relocate(const SearchSpace& space, Draft& draft, const Target& target,
              const plan::DeviceSet& devices) {
    const plan::DeviceSet from = draft.config(target.op).devices;
    const auto move = [&](OpId op) {
        draft.set(op, {.degrees = draft.config(op).degrees, .devices = devices});
    };
    move(target.op);
    if (!target.group) return;
    const Groups& groups = space.groups().groups();
    for (const OpId op : groups.members[static_cast<std::size_t>(groups.of[target.op.index()])]) {
        const bool along = space.problem().has_forward(op) && draft.config(op).devices == from;
        if (along) move(op);
    }
}

}  // namespace partita::search
