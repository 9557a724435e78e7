// SPDX-License-Identifier: Apache-2.0
#include "search/moves/change_micro_batches.h"

#include <array>
#include <utility>

namespace partita::search {

using graph::OpId;
using plan::ScheduleKind;

std::optional<double> change_micro_batches(SearchSpace& space, Random& random, Draft& draft) {
    const int most = space.problem().constraints().most_micro_batches;
    if (most < 2) return std::nullopt;
    plan::Policy policy = draft.base().policy();
    constexpr std::array kSchedules = {ScheduleKind::none, ScheduleKind::gpipe,
                                       ScheduleKind::one_f_one_b};
    switch (random.below(3)) {
    case 0: policy.micro_batches *= 2; break;
    case 1: policy.micro_batches /= 2; break;
    default: policy.schedule = {.kind = kSchedules[random.below(kSchedules.size())]}; break;
    }
    if (policy.micro_batches < 1 || policy.micro_batches > most) return std::nullopt;
    for (const OpId parameter : space.parameters()) {
        UpdateId update = draft.base().update(parameter);
        // Several micro-batches: gradients add up where they arise, unless updates are in shards.
        const bool whole = update.update.devices == 0 && !update.refetch;
        update.accumulate_locally = whole && policy.micro_batches > 1;
        draft.set_update(parameter, update);
    }
    draft.set_policy(std::move(policy));
    return 0.0;
}

}  // namespace partita::search
