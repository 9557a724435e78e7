// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_sharding.h"

#include <vector>

#include "search/configs/parameter_sharding_table.h"

namespace partita::search {

using graph::OpId;

namespace {

void set_home(SearchSpace& space, OpId parameter, Home home, Draft& draft) {
    FollowTable& follow = space.follow();
    const EndId end = *follow.leading_end(parameter);
    const OpId reader = follow.end(end).from;
    const ConfigId read = follow.follow(end, draft.config(reader), draft.phase());
    const auto kept = space.homes().keep(parameter, read, home, draft.phase());
    if (!kept) return;
    draft.set(parameter, kept->config);
    draft.set_update(parameter, kept->update);
}

/// Parameters whose leading readers are twins of this one's, as the same operand.
void set_homes_of_twins(SearchSpace& space, OpId parameter, Home home, Draft& draft) {
    const graph::OpGraph& graph = space.problem().graph();
    const Link& link = space.follow().link(*space.follow().leading_end(parameter));
    for (const OpId reader : space.repeats().twins(link.reader)) {
        const OpId twin = graph.tensor(graph.op(reader).inputs[link.operand]).producer;
        if (space.is_parameter(twin)) set_home(space, twin, home, draft);
    }
}

}  // namespace

std::optional<double> change_home(SearchSpace& space, Random& random, Draft& draft) {
    const std::vector<OpId>& all = space.parameters();
    if (all.empty()) return std::nullopt;
    const OpId first = all[random.below(all.size())];
    const Home home = kHomes[random.below(kHomes.size())];
    const std::uint64_t scope = random.below(3);
    if (home == Home::in_shards && !space.is_memory_short()) return std::nullopt;
    if (scope == 0) set_home(space, first, home, draft);
    if (scope == 1) set_homes_of_twins(space, first, home, draft);
    if (scope == 2) {
        for (const OpId parameter : all) set_home(space, parameter, home, draft);
    }
    return 0.0;
}

}  // namespace partita::search
