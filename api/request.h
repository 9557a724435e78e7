// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a plan, as typed options: filled from the command line by the program, from
// PlanOptions by the public API, and turned here into what Problem and Engine take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "api/costs.h"
#include "api/loaded_model.h"
#include "base/units.h"
#include "cost/machine/machine.h"
#include "graph/operators/soap.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "search/portfolio/search_run.h"

namespace partita::api {

/// How training goes. Empty: not given, so the default or what a plan says.
struct TrainingOptions {
    std::optional<plan::Mode> mode;
    std::optional<plan::Optimizer> optimizer;
    std::optional<plan::LossKind> loss;
    std::string loss_output;  ///< with `loss`; "" = all float outputs
    std::optional<plan::GradientSync> gradient_sync;
    std::optional<int> micro_batches;        ///< of inference too
    std::optional<plan::Schedule> schedule;  ///< the same

    /// Leaves micro-batches and schedule to the search, where they were not given and may pay: in the
    /// step time of training.
    void open(plan::ProblemOptions& problem) const;
    /// Replaces what was given. Throws UsageError for training options without training.
    void apply(plan::Mode& to_mode, plan::Policy& to_policy) const;
};

/// What else is asked of a plan.
struct GoalOptions {
    TrainingOptions training;
    std::optional<plan::Objective> objective;  ///< empty: the default of mode and model
    std::filesystem::path fix;                 ///< empty: none
    std::filesystem::path profile;             ///< of measured costs; empty: none
    std::optional<Bytes> memory_limit;
    bool whole_ops = false;                 ///< --dims O
    std::vector<graph::SoapClass> unsplit;  ///< classes that --dims leaves out

    /// Writes all that restricts the search, what the model and --fix demand included. Returns
    /// notes: what the globs of --fix matched.
    std::vector<std::string> apply(const LoadedModel& model, const cost::Machine& machine,
                                   plan::Constraints& constraints) const;
};

/// Searcher, scheduler and budget.
struct SearchOptions {
    std::string searcher = "auto";
    plan::Scheduler scheduler = plan::Scheduler::pct;
    std::optional<double> time_limit_seconds;  ///< empty: none, or the engine's own
    std::optional<std::int64_t> evaluations;
    std::uint64_t seed = 1;
    int threads = 0;  ///< 0 = one per core
    search::ExactEngine exact_engine = search::ExactEngine::both;
    bool groups = true;
    bool contiguous = false;  ///< throughput: one contiguous piece of the graph per device

    /// Everything but the searchers.
    [[nodiscard]] search::EngineOptions engine_options() const;
};

/// Latency of inference, step time of training, throughput of workloads.
plan::Objective default_objective(plan::Mode mode, const LoadedModel& model);
/// Latency is of inference, step time of training. Throws UsageError.
void check_objective(plan::Objective objective, plan::Mode mode);

/// What a plan says of the problem that it solves; constraints are not part of a plan.
plan::ProblemOptions problem_options(const plan::Plan& plan);

/// Keeps references to graph and machine.
plan::Problem make_problem(const LoadedModel& model, const cost::Machine& machine,
                           plan::ProblemOptions options, const Costs& costs = {});

/// The plan that a search found, with what only model and costs know.
plan::Plan make_plan(const LoadedModel& model, const plan::Problem& problem,
                     const search::SearchResult& result, const Costs& costs = {});

}  // namespace partita::api
