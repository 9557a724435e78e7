// SPDX-License-Identifier: Apache-2.0
//
// The ways to keep a source (parameter_sharding.h), by number and remembered.
//
// Threads: fills itself, so one thread at a time.
#pragma once

#include <optional>
#include <vector>

#include "search/configs/degrees_memo.h"
#include "search/configs/parameter_sharding.h"
#include "search/configs/propagation_table.h"
#include "search/configs/state.h"

namespace partita::search {

class ParameterShardingTable {
public:
    /// Both must outlive it.
    ParameterShardingTable(const plan::Problem& problem, ConfigTable& table,
                           PropagationTable& propagation);

    /// As sharded() of parameter_sharding.h; `read` as the source's leading reader needs it.
    std::optional<DecisionId> sharded(graph::OpId source, ConfigId read, ParameterSharding sharding,
                                      MicroBatchesId micro_batches_id);
    /// As sharding_of() there, of the source to which its leading reader leads by this end.
    std::optional<ParameterSharding> sharding_of(EndId leading, const State& state);

private:
    [[nodiscard]] std::optional<DegreesId> find_shards(graph::OpId source, DegreesId read,
                                                       MicroBatchesId micro_batches_id);

    const plan::Problem& problem_;
    ConfigTable& table_;
    PropagationTable& propagation_;
    std::vector<char> trained_;  ///< per op
    DegreesMemo shards_;  ///< by source and degrees as read: with shards in place of replicas
};

}  // namespace partita::search
