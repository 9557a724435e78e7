// SPDX-License-Identifier: Apache-2.0
//
// BatchChoices: into how many micro-batches a plan may cut the batch, and in which schedule it may
// run them: what the user's policy says, and where the search may choose, also
//
//     micro-batches    1, 2, 4, ... up to Constraints::most_micro_batches, as far as they cut the
//                      batch evenly
//     schedule         any
//
// What is gathered again (Policy::gather_again) is always for the search to choose.
#pragma once

#include <vector>

#include "plan/problem/graph_facts.h"
#include "plan/problem/problem_options.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

class BatchChoices {
public:
    /// Throws InputError when the graph has more uses of a tensor than can be planned, and
    /// UsageError when it does not go with the micro-batches or the schedule of the policy.
    BatchChoices(const GraphFacts& facts, const ProblemOptions& options);

    /// Numbers of micro-batches that a plan may have, rising.
    [[nodiscard]] const std::vector<int>& micro_batch_choices() const { return micro_batches_; }
    [[nodiscard]] int most_micro_batches() const { return micro_batches_.back(); }
    /// May the search choose the schedule?
    [[nodiscard]] bool free_schedule() const { return free_schedule_; }
    /// May a plan have that policy?
    [[nodiscard]] bool allows(const Policy& policy) const;
    /// Is the cut of the batch, or the schedule, what somebody named?
    [[nodiscard]] bool fixes_batch() const { return fixes_batch_; }

private:
    Policy policy_;
    std::vector<int> micro_batches_;
    bool free_schedule_;
    bool fixes_batch_;
};

}  // namespace partita::plan
