// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/target.h"

namespace partita::search {

using graph::OpId;

Target draw_target(const SearchSpace& space, Random& random) {
    const OpId op = space.draw_op(random);
    if (random.below(3) == 0) return {.op = op, .group = false};
    return {.op = space.leader(op), .group = true};
}

double draw_degrees(SearchSpace& space, OpId op, DevicesId devices, Random& random,
                    ProposalBuilder& builder) {
    ConfigTable& table = space.table();
    const ConfigId old = builder.config(op);
    const ConfigId config{table.draw_degrees(op, table.sets().size(devices), random), devices};
    builder.set(op, config);
    return table.log_probability(op, old) - table.log_probability(op, config);
}

void relocate(const SearchSpace& space, ProposalBuilder& builder, const Target& target,
              DevicesId devices) {
    const DevicesId from = builder.config(target.op).devices;
    const auto move = [&](OpId op) { builder.set(op, {builder.config(op).degrees, devices}); };
    move(target.op);
    if (!target.group) return;
    const OpGroups& groups = space.groups().groups();
    for (const OpId op : groups.members[static_cast<std::size_t>(groups.of[target.op.index()])]) {
        const bool along =
            space.problem().facts().has_forward(op) && builder.config(op).devices == from;
        if (along) move(op);
    }
}

}  // namespace partita::search
