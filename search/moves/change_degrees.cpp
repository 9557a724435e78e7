// SPDX-License-Identifier: Apache-2.0
#include "search/moves/change_degrees.h"

#include <utility>

#include "search/moves/target.h"

namespace partita::search {

std::optional<double> change_degrees(SearchSpace& space, Random& random, Draft& draft) {
    const Target target = draw_target(space, random);
    const plan::OpConfig& old = draft.config(target.op);
    const int size = old.devices.size();
    ConfigTable& table = space.table();
    if (table.degrees(target.op, size).size() < 2) return std::nullopt;
    plan::OpConfig config{.degrees = table.draw_degrees(target.op, size, random),
                          .devices = old.devices};
    const double log_ratio = table.log_probability(target.op, size, old.degrees) -
                             table.log_probability(target.op, size, config.degrees);
    give(draft, target, std::move(config));
    return log_ratio;
}

}  // namespace partita::search
