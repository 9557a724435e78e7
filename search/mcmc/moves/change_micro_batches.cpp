// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_micro_batches.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace partita::search {

using graph::OpId;
using plan::ScheduleKind;

namespace {

constexpr std::array kSchedules = {ScheduleKind::none, ScheduleKind::gpipe,
                                   ScheduleKind::one_f_one_b, ScheduleKind::eager_1f1b};

/// One in so many draws goes on from a plan without micro-batches: to find that it needs none takes
/// as long as dozens of other proposals.
constexpr std::uint64_t kRarely = 16;

/// The next or the previous number, or another schedule; nullopt: there is none.
std::optional<plan::Policy> other_policy(const plan::Problem& problem, const plan::Policy& own,
                                         Random& random) {
    const std::vector<int>& choices = problem.batch().micro_batch_choices();
    const bool open = problem.batch().free_schedule();
    plan::Policy policy = own;
    const std::uint64_t kind = random.below(3);
    if (kind == 2) {
        // The order of a single micro-batch is no choice.
        if (!open || own.micro_batches == 1) return std::nullopt;
        policy.schedule = {.kind = kSchedules[random.below(kSchedules.size())]};
        return policy;
    }
    const auto at = std::lower_bound(choices.begin(), choices.end(), own.micro_batches);
    const auto end = kind == 0 ? choices.end() - 1 : choices.begin();
    if (at == choices.end() || at == end) return std::nullopt;
    policy.micro_batches = kind == 0 ? *(at + 1) : *(at - 1);
    const bool ordered = policy.schedule.kind != ScheduleKind::none;
    if (open && policy.micro_batches == 1 && ordered) return std::nullopt;
    return policy;
}

}  // namespace

std::optional<double> change_micro_batches(SearchSpace& space, Random& random,
                                           ProposalBuilder& builder) {
    const plan::Problem& problem = space.problem();
    const plan::Policy& own = builder.base().policy();
    const bool open = problem.batch().free_schedule() && own.micro_batches > 1;
    if (problem.batch().micro_batch_choices().size() == 1 && !open) return std::nullopt;
    if (own.micro_batches == 1 && random.below(kRarely) != 0) return std::nullopt;
    std::optional<plan::Policy> policy = other_policy(problem, own, random);
    if (!policy) return std::nullopt;
    for (const OpId parameter : space.parameters()) {
        UpdateId update = builder.base().update(parameter);
        // Several micro-batches: gradients add up where they arise, unless updates are in shards.
        const bool whole = update.update.devices == 0 && !update.refetch;
        update.accumulate_locally = whole && policy->micro_batches > 1;
        builder.set_update(parameter, update);
    }
    builder.set_policy(std::move(*policy));
    return 0.0;
}

}  // namespace partita::search
