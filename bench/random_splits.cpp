// SPDX-License-Identifier: Apache-2.0
#include "bench/random_splits.h"

#include <vector>

#include "search/configs/config_table.h"
#include "search/profiling/covering_strategies.h"
#include "search/support/random.h"

namespace partita::bench {

plan::Strategy random_splits(const plan::Problem& problem, double share, std::uint64_t seed) {
    search::Random random(seed);
    search::ConfigTable table(problem);
    plan::Strategy strategy =
        plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), problem.policy());
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::OpId op(i);
        if (!problem.facts().has_forward(op) || random.uniform() >= share) continue;
        const search::DevicesId devices = table.draw_devices(op, random);
        const int size = table.sets().size(devices);
        const search::ConfigId config{.degrees = table.draw_degrees(op, size, random),
                                      .devices = devices};
        if (table.is_legal(op, config, table.micro_batches_id(problem.policy().micro_batches))) {
            strategy.ops[i].config = table.config(op, config);
        }
    }
    search::place_sources(problem, strategy);
    return strategy;
}

}  // namespace partita::bench
