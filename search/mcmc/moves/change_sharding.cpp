// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_sharding.h"

#include <vector>

#include "search/configs/parameter_sharding_table.h"

namespace partita::search {

using graph::OpId;

namespace {

void set_sharding(SearchSpace& space, OpId parameter, ParameterSharding sharding,
                  ProposalBuilder& builder) {
    PropagationTable& propagation = space.propagation();
    const EndId end = *propagation.leading_end(parameter);
    const OpId reader = propagation.end(end).from;
    const ConfigId read =
        propagation.propagate(end, builder.config(reader), builder.micro_batches_id());
    const auto decision =
        space.parameter_shardings().sharded(parameter, read, sharding, builder.micro_batches_id());
    if (!decision) return;
    builder.set(parameter, decision->config);
    builder.set_update(parameter, decision->update);
}

/// Parameters whose leading readers are twins of this one's, as the same operand.
void set_sharding_of_twins(SearchSpace& space, OpId parameter, ParameterSharding sharding,
                           ProposalBuilder& builder) {
    const graph::OpGraph& graph = space.problem().graph();
    const Link& link = space.propagation().link(*space.propagation().leading_end(parameter));
    for (const OpId reader : space.repeats().twins(link.reader)) {
        const OpId twin = graph.tensor(graph.op(reader).inputs[link.operand]).producer;
        if (space.is_parameter(twin)) set_sharding(space, twin, sharding, builder);
    }
}

}  // namespace

std::optional<double> change_sharding(SearchSpace& space, Random& random,
                                      ProposalBuilder& builder) {
    const std::vector<OpId>& all = space.parameters();
    if (all.empty()) return std::nullopt;
    const OpId first = all[random.below(all.size())];
    const ParameterSharding sharding =
        kParameterShardings[random.below(kParameterShardings.size())];
    const std::uint64_t scope = random.below(3);
    if (sharding == ParameterSharding::in_shards && !space.is_memory_short()) return std::nullopt;
    if (scope == 0) set_sharding(space, first, sharding, builder);
    if (scope == 1) set_sharding_of_twins(space, first, sharding, builder);
    if (scope == 2) {
        for (const OpId parameter : all) set_sharding(space, parameter, sharding, builder);
    }
    return 0.0;
}

}  // namespace partita::search
