// SPDX-License-Identifier: Apache-2.0
//
// Searchers that learn (rl/rl.h), for a search that names one of them.
//
//     check_learning()   options, before anything is loaded
//     outputs_of()       files, for check_outputs()
//     load_learned()     library and policy, before the search
//
// What else --reward measured needs: measured_reward.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/outputs.h"
#include "rl/rl.h"
#include "search/portfolio/learned.h"

#include <partita/search.h>

namespace partita::api {

/// Throws UsageError for options that no searcher of these would read, and that do not fit
/// together.
void check_learning(const PlanOptions& options, std::span<const std::string> searchers);

/// What will be written. Learning may go on in the file that is loaded.
std::vector<Output> outputs_of(const rl::LearnOptions& options);

/// For one search, from libpartita_rl beside this library, which is loaded when first asked for.
/// Null when none of the searchers learns. Throws UsageError when there is no such library, saying
/// why and what to do; InputError for a policy that cannot be read.
std::unique_ptr<search::LearnedSearchers> load_learned(const rl::LearnOptions& options,
                                                       std::span<const std::string> searchers);

}  // namespace partita::api
