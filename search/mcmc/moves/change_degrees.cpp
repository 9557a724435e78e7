// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_degrees.h"

#include "search/mcmc/moves/target.h"

namespace partita::search {

std::optional<double> change_degrees(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    const Target target = draw_target(space, random);
    const DevicesId devices = builder.config(target.op).devices;
    const int size = space.table().sets().size(devices);
    if (space.table().degrees(target.op, size).size() < 2) return std::nullopt;
    const double log_ratio = draw_degrees(space, target.op, devices, random, builder);
    if (target.group) builder.spread(target.op);
    return log_ratio;
}

}  // namespace partita::search
