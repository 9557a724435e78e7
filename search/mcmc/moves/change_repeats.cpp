// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_repeats.h"

#include "search/mcmc/moves/change_degrees.h"
#include "search/mcmc/moves/change_devices.h"
#include "search/mcmc/moves/copy_config.h"

namespace partita::search {

std::optional<double> change_repeats(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    if (!space.repeats().any()) return std::nullopt;
    const std::uint64_t kind = random.below(5);
    const auto log_ratio = kind == 0  ? change_devices(space, random, builder)
                           : kind < 3 ? copy_config(space, random, builder)
                                      : change_degrees(space, random, builder);
    if (log_ratio) builder.repeat();
    return log_ratio;
}

}  // namespace partita::search
