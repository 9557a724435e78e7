// SPDX-License-Identifier: Apache-2.0
#include "search/configs/parameter_sharding_table.h"

#include <array>

namespace partita::search {

using graph::OpId;

ParameterShardingTable::ParameterShardingTable(const plan::Problem& problem, ConfigTable& table,
                                               PropagationTable& propagation)
    : problem_(problem), table_(table), propagation_(propagation) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        trained_.push_back(is_trained(problem, OpId(i)) ? 1 : 0);
    }
}

std::optional<DecisionId> ParameterShardingTable::sharded(OpId source, ConfigId read,
                                                          ParameterSharding sharding,
                                                          MicroBatchesId micro_batches_id) {
    const bool trained = trained_[source.index()] != 0;
    const bool several = table_.micro_batches(micro_batches_id) > 1;
    if (sharding == ParameterSharding::as_read)
        return DecisionId{read, {.accumulate_locally = trained && several}};
    const DeviceSets& sets = table_.sets();
    const int devices = sets.size(read.devices);
    if (!trained || devices == 1) return std::nullopt;
    if (sharding == ParameterSharding::on_one_device) {
        const int device = sets[read.devices][static_cast<int>(source.index()) % devices];
        return DecisionId{table_.on_one_device(source, DeviceSets::single(device)),
                          {.accumulate_locally = several}};
    }
    const auto degrees = shards_.find_once(micro_batches_id, source.index(), read.degrees, [&] {
        return find_shards(source, read.degrees, micro_batches_id);
    });
    if (!degrees || !table_.may_use(source, read.devices)) return std::nullopt;
    const ConfigId shards{*degrees, read.devices};
    if (sharding == ParameterSharding::updates_in_shards)
        return DecisionId{read, {.update = shards}};
    return DecisionId{shards, {.refetch = true}};
}

std::optional<DegreesId> ParameterShardingTable::find_shards(OpId source, DegreesId read,
                                                             MicroBatchesId micro_batches_id) {
    DegreeLists& lists = table_.degree_lists();
    for (const auto& candidate : axes_in_shards(problem_, source, lists.degrees(source, read))) {
        const DegreesId id = lists.id(source, candidate);
        if (table_.is_legal_split(source, id, micro_batches_id)) return id;
    }
    return std::nullopt;
}

std::optional<ParameterSharding> ParameterShardingTable::sharding_of(EndId leading,
                                                                     const State& state) {
    const End& end = propagation_.end(leading);
    const OpId source = end.to;
    const ConfigId read =
        propagation_.propagate(leading, state.config(end.from), state.micro_batches_id());
    const UpdateId update = state.update(source);
    for (const ParameterSharding sharding : kParameterShardings) {
        const auto decision = sharded(source, read, sharding, state.micro_batches_id());
        // Where gradients of micro-batches add up is another question.
        const bool same = decision && decision->config == state.config(source) &&
                          decision->update.update == update.update &&
                          decision->update.refetch == update.refetch;
        if (same) return sharding;
    }
    return std::nullopt;
}

}  // namespace partita::search
