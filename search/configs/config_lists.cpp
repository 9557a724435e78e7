// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_lists.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/op_graph.h"
#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::DeviceSet;
using plan::OpConfig;
using plan::Problem;

ConfigLists::ConfigLists(const Problem& problem, const std::vector<int>& devices, Detail detail)
    : problem_(problem), detail_(detail), blocks_(blocks_of_factors(problem)) {
    find_sets(devices, detail);
}

/// Prefixes of the devices, each as long as a divisor or a power of two.
void ConfigLists::find_sets(const std::vector<int>& devices, Detail detail) {
    const int all = static_cast<int>(devices.size());
    for (int size = all; size >= 1; --size) {
        const bool fits = all % size == 0 || (size & (size - 1)) == 0;
        const bool wanted = size == all || size == 1 || detail != Detail::whole_or_batch;
        if (fits && wanted) sets_.push_back(some_of(devices, 0, size));
    }
}

bool ConfigLists::is_legal(OpId op, const OpConfig& config) const {
    return !plan::find_fault(problem_, op, config, problem_.policy().micro_batches);
}

std::vector<OpConfig> ConfigLists::of(OpId op) const {
    std::vector<OpConfig> configs;
    for (const DeviceSet& set : sets_) {
        if (set.size() == 1) {
            configs.push_back(on_one_device(problem_, op, sets_.front()));
        } else if (!problem_.constraints().whole_ops() && !problem_.graph().op(op).given) {
            add_degrees(op, set, configs);
        }
    }
    return configs;
}

void ConfigLists::add_degrees(OpId op, const DeviceSet& set, std::vector<OpConfig>& configs) const {
    const graph::OpRule& rule = problem_.facts().rule(op);
    const std::vector<Axis> all = axes_to_split(rule, blocks_[op.index()]);
    const auto add = [&](std::vector<Axis> axes) {
        OpConfig config{.axes = std::move(axes), .devices = set};
        if (is_legal(op, config)) configs.push_back(std::move(config));
    };
    for (const Axis& axis : all) add({axis.with_degree(set.size())});
    if (detail_ != Detail::two_axes) return;
    const auto is_of_results = [&](const Axis& axis) {
        return axis.is_factor() && axis.blocks == 1 &&
               !rule.factors[static_cast<std::size_t>(axis.factor)].reduction;
    };
    std::vector<Axis> of_results;
    std::ranges::copy_if(all, std::back_inserter(of_results), is_of_results);
    for (int major = 2; major <= set.size() / 2; ++major) {
        if (set.size() % major != 0) continue;
        for (auto a = of_results.begin(); a != of_results.end(); ++a) {
            for (auto b = a + 1; b != of_results.end(); ++b) {
                add({a->with_degree(major), b->with_degree(set.size() / major)});
            }
        }
    }
}

Detail detail_for(const Problem& problem, std::size_t devices) {
    const auto ops = static_cast<std::int64_t>(problem.graph().op_count());
    if (devices <= 8 && ops <= 4'000) return Detail::two_axes;
    if (devices <= 32 && ops <= 20'000) return Detail::one_axis;
    return Detail::whole_or_batch;
}

}  // namespace partita::search
