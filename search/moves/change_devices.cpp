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

}  // namespace

std::optional<double> change_devices(SearchSpace& space, Random& random, Draft& draft) {
    const Target target = draw_target(space, random);
    ConfigTable& table = space.table();
    const std::vector<int>& sizes = table.sizes(target.op);
    const int size = sizes[random.below(sizes.size())];
    const std::vector<DeviceSet>& sets = table.device_sets(target.op, size);
    const DeviceSet& devices = sets[random.below(sets.size())];
    const plan::OpConfig old = draft.config(target.op);
    if (devices.size() == old.devices.size()) {
        if (devices == old.devices) return std::nullopt;
        relocate(space, draft, target, devices);
        return 0.0;
    }
    plan::OpConfig config{.degrees = table.draw_degrees(target.op, size, random),
                          .devices = devices};
    const double log_ratio =
        log_probability(table, target.op, old) - log_probability(table, target.op, config);
    give(draft, target, std::move(config));
    return log_ratio;
}

}  // namespace partita::search
