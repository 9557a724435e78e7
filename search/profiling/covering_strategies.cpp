// SPDX-License-Identifier: Apache-2.0
#include "search/profiling/covering_strategies.h"

#include <algorithm>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/config_table.h"
#include "search/configs/parameter_sharding.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::OpConfig;
using plan::Problem;
using plan::Strategy;

namespace {

bool is_source(const graph::Op& op) {
    return op.kind != graph::OpKind::compute && op.kind != graph::OpKind::output;
}

/// Whole first, then by the number of parts.
std::vector<OpConfig> configs_of(const Problem& problem, OpId op, ConfigTable& table) {
    std::vector<OpConfig> configs;
    for (const int size : table.sizes(op)) {
        const auto& sets = table.device_sets(op, size);
        if (sets.empty()) continue;
        if (size == 1) {
            configs.push_back(on_one_device(problem, op, sets.front()));
            continue;
        }
        for (const auto& degrees : table.degrees(op, size)) {
            OpConfig config{.axes = degrees, .devices = sets.front()};
            if (!find_fault(problem, op, config, problem.policy().micro_batches)) {
                configs.push_back(std::move(config));
            }
        }
    }
    return configs;
}

}  // namespace

void place_sources(const Problem& problem, Strategy& strategy) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        if (!is_source(problem.graph().op(op))) continue;
        const OpId reader = leading_reader(problem, op);
        if (!reader.valid()) continue;
        strategy.ops[i].config =
            as_read(problem, op, strategy.config(reader), problem.policy().micro_batches);
    }
}

std::vector<Strategy> covering_strategies(const Problem& problem) {
    ConfigTable table(problem);
    const std::size_t ops = problem.graph().op_count();
    std::vector<std::vector<OpConfig>> configs;
    std::size_t most = 1;
    for (std::size_t i = 0; i < ops; ++i) {
        configs.push_back(configs_of(problem, OpId(i), table));
        if (!is_source(problem.graph().op(OpId(i)))) {
            most = std::max(most, configs.back().size());
        }
    }
    std::vector<Strategy> strategies(most);
    for (std::size_t n = 0; n < most; ++n) {
        strategies[n].policy = problem.policy();
        for (const auto& of_op : configs) {
            strategies[n].ops.push_back({.config = of_op[n < of_op.size() ? n : 0]});
        }
        place_sources(problem, strategies[n]);
        join_groups(problem, 0, strategies[n]);
    }
    return strategies;
}

}  // namespace partita::search
