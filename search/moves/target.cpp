// SPDX-License-Identifier: Apache-2.0
#include "search/moves/target.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace partita::search {

using graph::OpId;
using plan::DeviceSet;

namespace {

/// ln q of coming to the degrees on one of the sets of their size, without what is the same for all.
double log_probability(ConfigTable& table, OpId op, const plan::OpConfig& config) {
    const int size = config.devices.size();
    const auto sets = static_cast<double>(table.device_sets(op, size).size());
    return table.log_probability(op, size, config.degrees) - std::log(std::max(sets, 1.0));
}

}  // namespace

Target draw_target(const SearchSpace& space, Random& random) {
    const OpId op = space.draw_op(random);
    if (random.below(3) == 0) return {.op = op, .group = false};
    return {.op = space.leader(op), .group = true};
}

const DeviceSet& draw_devices(SearchSpace& space, OpId op, Random& random) {
    ConfigTable& table = space.table();
    const std::vector<int>& sizes = table.sizes(op);
    const std::vector<DeviceSet>& sets = table.device_sets(op, sizes[random.below(sizes.size())]);
    return sets[random.below(sets.size())];
}

double draw_degrees(SearchSpace& space, OpId op, const DeviceSet& devices, Random& random,
                    Draft& draft) {
    ConfigTable& table = space.table();
    const plan::OpConfig old = draft.config(op);
    plan::OpConfig config{.degrees = table.draw_degrees(op, devices.size(), random),
                          .devices = devices};
    const double log_ratio = log_probability(table, op, old) - log_probability(table, op, config);
    draft.set(op, std::move(config));
    return log_ratio;
}

void relocate(const SearchSpace& space, Draft& draft, const Target& target,
              const plan::DeviceSet& devices) {
    const plan::DeviceSet from = draft.config(target.op).devices;
    const auto move = [&](OpId op) {
        draft.set(op, {.degrees = draft.config(op).degrees, .devices = devices});
    };
    move(target.op);
    if (!target.group) return;
    const Groups& groups = space.groups().groups();
    for (const OpId op : groups.members[static_cast<std::size_t>(groups.of[target.op.index()])]) {
        const bool along = space.problem().has_forward(op) && draft.config(op).devices == from;
        if (along) move(op);
    }
}

}  // namespace partita::search
