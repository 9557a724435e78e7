// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/zero.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search/configs/parameter_sharding.h"

namespace partita::search {

using graph::OpId;
using plan::Problem;
using plan::Strategy;

ZeroLevel zero_level(const Problem& problem, const Strategy& strategy) {
    ZeroLevel level = ZeroLevel::none;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (problem.graph().ops()[i].kind != graph::OpKind::parameter) continue;
        level = std::max(level,
                         plan::zero_level(strategy.update(OpId(i)), strategy.policy.micro_batches));
    }
    return level;
}

void apply_zero(const Problem& problem, ZeroLevel level, Strategy& strategy) {
    if (level == ZeroLevel::none) return;
    const int micro_batches = strategy.policy.micro_batches;
    const ParameterSharding sharding = level == ZeroLevel::parameters
                                           ? ParameterSharding::in_shards
                                           : ParameterSharding::updates_in_shards;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        auto decision = sharded(problem, OpId(i), strategy.ops[i].config, sharding, micro_batches);
        if (!decision) continue;
        strategy.ops[i] = std::move(*decision);
        strategy.ops[i].update.accumulate_locally =
            level == ZeroLevel::optimizer && micro_batches > 1;
    }
}

void apply_reduction(const Problem& problem, bool each, Strategy& strategy) {
    if (strategy.policy.micro_batches == 1) return;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        if (problem.graph().ops()[i].kind != graph::OpKind::parameter) continue;
        strategy.ops[i].update.accumulate_locally = !each;
    }
}

}  // namespace partita::search
