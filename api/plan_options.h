// SPDX-License-Identifier: Apache-2.0
//
// What options of plans do: PlanOptions as what Problem and Engine take, for program and API alike.
// That each has a value which it can have is checked before: by reading it, or by check_options()
// (option_table.h). Here is refused what does not fit together; UsageError names the option.
#pragma once

#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "cost/machine/machine.h"
#include "plan/evaluation/priced.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "rl/rl.h"
#include "search/core/engine.h"

#include <partita/search.h>

namespace partita::api {

/// Replaces what was given. Throws UsageError for training options without training.
void apply_training(const PlanOptions& options, plan::Mode& mode, plan::Policy& policy);

/// Of the mode that `problem` has, or the default of mode and model.
void apply_objective(const PlanOptions& options, const LoadedModel& model,
                     plan::ProblemOptions& problem);

/// Writes all that restricts the search, what the model and --fix demand included. Returns notes:
/// what the globs of --fix matched. Throws InputError for a bad file of constraints.
std::vector<std::string> apply_constraints(const PlanOptions& options, const LoadedModel& model,
                                           const cost::Machine& machine,
                                           plan::Constraints& constraints);

/// Leaves micro-batches and schedule to the search, where they were not given and may pay: in the
/// step time of training. With --strategy there are more micro-batches to choose from.
void open_pipeline(const PlanOptions& options, const graph::OpGraph& graph,
                   const cost::Machine& machine, plan::ProblemOptions& problem);

/// All of these.
plan::ProblemOptions problem_options(const PlanOptions& options, const LoadedModel& model,
                                     const cost::Machine& machine);

/// Everything but start, progress, stop and the searchers that learn.
search::EngineOptions engine_options(const PlanOptions& options);
plan::Listed listed(const PlanOptions& options);

/// --contiguous and --strategy are not for all searches. `starts`: from a plan that is given,
/// whether or not as PlanOptions::start.
void check_form(const PlanOptions& options, bool starts);

rl::LearnOptions learn_options(const PlanOptions& options);

}  // namespace partita::api
