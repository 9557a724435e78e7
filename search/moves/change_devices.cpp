// SPDX-License-Identifier: Apache-2.0
#include "search/moves/change_devices.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "search/moves/target.h"

namespace partita::search {

using plan::DeviceSet;

namespace {

/// ln q of coming to the degrees on one of the sets of their size, without what is the same for all.
double log_probability(ConfigTable& table, graph::OpId op, const plan::OpConfig& config) {
    const int size = config.devices.size();
    const auto sets = static_cast<double>(table.device_sets(op, size).size());
    return table.log_probability(op, size, config.degrees) - std::log(std::max(sets, 1.0));
}

const DeviceSet& draw_devices(ConfigTable& table, graph::OpId op, Random& random) {
    const std::vector<int>& sizes = table.sizes(op);
    const std::vector<DeviceSet>& sets = table.device_sets(op, sizes[random.below(sizes.size())]);
    return sets[random.below(sets.size())];
}

/// Gives the op these devices and new degrees; returns the log ratio.
double draw_degrees_for(SearchSpace& space, graph::OpId op, const DeviceSet& devices,
                        Random& random, Draft& draft) {
    ConfigTable& table = space.table();
    const plan::OpConfig old = draft.config(op);
    plan::OpConfig config{.degrees = table.draw_degrees(op, devices.size(), random),
                          .devices = devices};
    const double log_ratio = log_probability(table, op, old) - log_probability(table, op, config);
    draft.set(op, std::move(config));
    return log_ratio;
}

}  // namespace

double draw_config(SearchSpace& space, graph::OpId op, Random& random, Draft& draft) {
    return draw_degrees_for(space, op, draw_devices(space.table(), op, random), random, draft);
}

std::optional<double> change_devices(SearchSpace& space, Random& random, Draft& draft) {
    const Target target = draw_target(space, random);
    ConfigTable& table = space.table();
    const DeviceSet& devices = draw_devices(table, target.op, random);
    const plan::OpConfig old = draft.config(target.op);
    if (devices.size() == old.devices.size()) {
        if (devices == old.devices) return std::nullopt;
        relocate(space, draft, target, devices);
        return 0.0;
    }
    const double log_ratio = draw_degrees_for(space, target.op, devices, random, draft);
    if (target.group) draft.spread(target.op);
    return log_ratio;
}

}  // namespace partita::search
