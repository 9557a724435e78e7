// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/batch_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "plan/problem/micro_batches.h"

namespace partita::plan {

using graph::OpId;

namespace {

void check_micro_batches(const GraphFacts& facts, int micro_batches) {
    if (const auto fault = find_batch_fault(facts, 1)) throw InputError(*fault + ".");
    if (const auto fault = find_batch_fault(facts, micro_batches)) {
        throw UsageError(fmt::format("--micro-batches: {}. Use fewer, or 1.", *fault));
    }
}

void check_schedule(const GraphFacts& facts, const Schedule& schedule) {
    if (schedule.kind == ScheduleKind::none) return;
    for (std::size_t i = 0; i < facts.graph().op_count(); ++i) {
        if (facts.is_batched(OpId(i))) return;
    }
    throw UsageError(
        fmt::format("--schedule {}: nothing in the model depends on a batch. Leave it out.",
                    to_text(schedule)));
}

/// `named` by the user, and 1, 2, 4, ... up to `most`; rising.
std::vector<int> choices_of_micro_batches(const GraphFacts& facts, int named, int most) {
    std::vector<int> choices = {named};
    const std::int64_t extent = batch_extent(facts);
    for (int count = 1; count <= most; count *= 2) {
        if (count > 1 && (extent % count != 0 || find_batch_fault(facts, count))) break;
        choices.push_back(count);
    }
    std::sort(choices.begin(), choices.end());
    choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
    return choices;
}

}  // namespace

BatchChoices::BatchChoices(const GraphFacts& facts, const ProblemOptions& options)
    : policy_(options.policy),
      free_schedule_(options.constraints.free_schedule),
      fixes_batch_(options.objective == Objective::step_time &&
                   (options.constraints.most_micro_batches == 0 || !free_schedule_)) {
    check_micro_batches(facts, policy_.micro_batches);
    micro_batches_ = choices_of_micro_batches(facts, policy_.micro_batches,
                                              options.constraints.most_micro_batches);
    check_schedule(facts, policy_.schedule);
}

bool BatchChoices::allows(const Policy& policy) const {
    Policy wanted = policy_;
    wanted.gather_again = policy.gather_again;
    if (free_schedule_) wanted.schedule = policy.schedule;
    if (std::binary_search(micro_batches_.begin(), micro_batches_.end(), policy.micro_batches)) {
        wanted.micro_batches = policy.micro_batches;
    }
    return policy == wanted;
}

}  // namespace partita::plan
