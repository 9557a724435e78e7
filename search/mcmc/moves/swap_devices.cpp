// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/swap_devices.h"

#include "search/mcmc/moves/target.h"

namespace partita::search {

std::optional<double> swap_devices(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    const Target a = draw_target(space, random);
    Target b = draw_target(space, random);
    b.group = a.group;
    if (b.group) b.op = space.leader(b.op);
    const DevicesId of_a = builder.config(a.op).devices;
    const DevicesId of_b = builder.config(b.op).devices;
    const DeviceSets& sets = space.table().sets();
    if (of_a == of_b || sets.size(of_a) != sets.size(of_b)) return std::nullopt;
    if (a.group && space.same_group(a.op, b.op)) return std::nullopt;
    relocate(space, builder, a, of_b);
    relocate(space, builder, b, of_a);
    return 0.0;
}

}  // namespace partita::search
