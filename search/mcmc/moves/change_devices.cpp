// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_devices.h"

#include "search/mcmc/moves/target.h"

namespace partita::search {

std::optional<double> change_devices(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    const Target target = draw_target(space, random);
    const DevicesId devices = space.table().draw_devices(target.op, random);
    const DevicesId old = builder.config(target.op).devices;
    if (devices == old) return std::nullopt;
    const DeviceSets& sets = space.table().sets();
    if (sets.size(devices) == sets.size(old)) {
        relocate(space, builder, target, devices);
        return 0.0;
    }
    const double log_ratio = draw_degrees(space, target.op, devices, random, builder);
    if (target.group) builder.spread(target.op);
    return log_ratio;
}

}  // namespace partita::search
