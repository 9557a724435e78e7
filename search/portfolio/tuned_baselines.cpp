// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/tuned_baselines.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "search/hybrid_parallel/baselines.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/list_scheduling/single_device.h"
#include "search/portfolio/searcher_table.h"

namespace partita::search {

using plan::Evaluation;
using plan::Problem;

namespace {

Baseline single_device_baseline(EvaluatorPool& pool, const GroupGraph& groups) {
    Baseline baseline{"single-device", "1 device", std::nullopt};
    for (const int device : single_device_candidates(groups)) {
        const Evaluation evaluation =
            pool.evaluator(0).evaluate(groups.strategy(place_on(groups, device)));
        if (!evaluation.feasible()) continue;
        baseline.value = evaluation.value;  // fastest first: the others are slower
        break;
    }
    return baseline;
}

/// What a searcher finds by so many evaluations, alone.
std::optional<Candidate> found_alone(const EngineOptions& options, const SearcherRow& row,
                                     std::int64_t evaluations, EvaluatorPool& pool,
                                     const GroupGraph& groups, const Bound& bound) {
    Engine engine({.searchers = {std::string(row.name)},
                   .scheduler = options.scheduler,
                   .evaluations = evaluations,
                   .seed = options.seed,
                   .contiguous = options.contiguous,
                   .cancelled = options.cancelled},
                  pool, groups, bound, Duration{0});
    engine.begin_turn(0, 1);
    static_cast<void>(engine.run(row));
    const Candidate* best = engine.best_candidate();
    return best != nullptr ? std::optional(*best) : std::nullopt;
}

/// The same on a problem that leaves the cut of the batch to the searcher.
std::optional<Candidate> found_with_free_batch(const EngineOptions& options, const SearcherRow& row,
                                               std::int64_t evaluations,
                                               const EvaluatorPool& pool) {
    const Problem problem = pool.problem().with_free_batch();
    OpGroups groups = make_groups(problem, options.group ? Grouping::all : Grouping::required_only);
    if (!groups.conflict.empty()) return std::nullopt;
    const GroupGraph graph(problem, std::move(groups));
    EvaluatorPool own(problem, options.scheduler, pool.threads());
    return found_alone(options, row, evaluations, own, graph, Bound{});
}

/// How many evaluations a baseline may take; 0: it is not priced, because one over all devices
/// takes too long, or there is nothing to share.
std::int64_t affordable_evaluations(const Problem& problem, std::string_view searcher) {
    constexpr std::int64_t kMostParts = 400'000;
    constexpr std::int64_t kMostWork = 4'000'000;  // parts of all evaluations
    constexpr std::int64_t kMostEvaluations = 64;
    const std::int64_t devices = problem.device_count();
    const std::int64_t parts = static_cast<std::int64_t>(problem.graph().op_count()) * devices *
                               problem.policy().micro_batches;
    if (parts == 0 || devices < 2 || parts > kMostParts) return 0;
    const bool shares_batches = data_parallel_devices(problem).front().size() > 1;
    if (searcher == "data-parallel" && !shares_batches) return 0;
    return std::clamp<std::int64_t>(kMostWork / parts, 1, kMostEvaluations);
}

}  // namespace

std::vector<Baseline> tuned_baselines(const Engine& search, EvaluatorPool& pool,
                                      std::string_view alone) {
    const EngineOptions& options = search.options();
    const GroupGraph& groups = search.groups();
    const Problem& problem = pool.problem();
    std::vector<Baseline> baselines{single_device_baseline(pool, groups)};
    for (const std::string_view searcher : {"data-parallel", "expert"}) {
        Baseline& baseline =
            baselines.emplace_back(Baseline{std::string(searcher), "", std::nullopt});
        const std::int64_t evaluations = affordable_evaluations(problem, searcher);
        if (evaluations == 0) continue;
        const SearcherRow& row = *find_searcher(searcher);
        std::optional<Candidate> found =
            alone == searcher
                ? std::optional(*search.best_candidate())
                : found_alone(options, row, evaluations, pool, groups, search.bound());
        if (problem.batch().fixes_batch()) {
            std::optional<Candidate> free = found_with_free_batch(options, row, evaluations, pool);
            if (free && (!found || free->evaluation.better_than(found->evaluation))) {
                found = std::move(free);
            }
        }
        if (!found || !found->evaluation.feasible()) continue;
        baseline.value = found->evaluation.value;
        baseline.configuration = configuration_of(problem, found->strategy);
    }
    return baselines;
}

}  // namespace partita::search
