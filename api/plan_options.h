// SPDX-License-Identifier: Apache-2.0
//
// PlanOptions, checked, as what Problem and Engine take (request.h).
#pragma once

#include "api/learned_library.h"
#include "api/loaded_model.h"
#include "cost/machine/machine.h"
#include "plan/problem/problem.h"
#include "search/core/engine.h"

#include <partita/search.h>

namespace partita::api {

/// Everything but start, progress, stop and the searchers that learn. Throws UsageError naming the
/// option.
search::EngineOptions engine_options(const PlanOptions& options);

LearningOptions learning_options(const PlanOptions& options);

/// Throws UsageError naming the option, InputError for a bad file of constraints.
plan::ProblemOptions problem_options(const PlanOptions& options, const LoadedModel& model,
                                     const cost::Machine& machine);

}  // namespace partita::api
