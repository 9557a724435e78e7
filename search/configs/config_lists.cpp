// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_lists.h"

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
    const std::vector<graph::Factor>& factors = problem_.facts().rule(op).factors;
    const auto add = [&](std::vector<Axis> axes) {
        OpConfig config{.axes = std::move(axes), .devices = set};
        if (is_legal(op, config)) configs.push_back(std::move(config));
    };
    add({Axis::replicas(set.size())});
    for (std::size_t f = 0; f < factors.size(); ++f) {
        if (factors[f].splittable && factors[f].extent > 1) add({Axis::along(f, set.size())});
    }
    for (const FactorBlocks& blocks : blocks_[op.index()]) {
        add({Axis::along(blocks.factor, set.size(), blocks.blocks)});
    }
    if (detail_ != Detail::two_axes) return;
    for (int major = 2; major <= set.size() / 2; ++major) {
        if (set.size() % major != 0) continue;
        for (std::size_t a = 0; a < factors.size(); ++a) {
            for (std::size_t b = a + 1; b < factors.size(); ++b) {
                const bool results = !factors[a].reduction && !factors[b].reduction;
                const bool splittable = factors[a].splittable && factors[b].splittable;
                if (!results || !splittable) continue;
                add({Axis::along(a, major), Axis::along(b, set.size() / major)});
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
