// SPDX-License-Identifier: Apache-2.0
//
// From model, machine and what is asked of a plan (plan_options.h) to a Problem, and from what a
// search found to the plan.
#pragma once

#include "api/costs.h"
#include "api/loaded_model.h"
#include "cost/machine/machine.h"
#include "plan/evaluation/priced.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "search/portfolio/search_run.h"

namespace partita::api {

/// Latency of inference, step time of training, throughput of workloads.
plan::Objective default_objective(plan::Mode mode, const LoadedModel& model);
/// Latency is of inference, step time of training. Throws UsageError.
void check_objective(plan::Objective objective, plan::Mode mode);

/// What a plan says of the problem that it solves; constraints are not part of a plan.
plan::ProblemOptions problem_options(const plan::Plan& plan);

/// Keeps references to graph and machine.
plan::Problem make_problem(const LoadedModel& model, const cost::Machine& machine,
                           plan::ProblemOptions options, const Costs& costs = {});

/// The plan that a search found and plan::price() priced, with what only model and costs know.
plan::Plan make_plan(const LoadedModel& model, const plan::Problem& problem,
                     const search::SearchResult& result, const plan::Priced& priced,
                     const Costs& costs = {});

}  // namespace partita::api
