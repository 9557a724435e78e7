// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/quick_searchers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "plan/evaluation/max_load.h"
#include "search/core/engine.h"
#include "search/hybrid_parallel/grid_search.h"
#include "search/max_load/contiguous/contiguous.h"
#include "search/portfolio/composed_searchers.h"
#include "search/portfolio/searcher_table.h"
#include "search/variable_elimination/elimination.h"

namespace partita::search {

namespace {

/// Where ops may be split these find what the placers of whole ops cannot.
constexpr std::array<std::string_view, 3> kFirst = {"single-device", "data-parallel", "expert"};

/// Ideals that take half a second at most.
constexpr ContiguousOptions kQuick{.most_ideals = 20'000};

/// Lists of configs that are priced in some tenths of a second.
constexpr EliminationOptions kQuickElimination{.most_devices_of_two_axes = 4, .repair = false};

/// With more, mcmc goes on further from what the others find: the optimum if nothing overlaps is
/// hard to leave by small changes (docs/search-design.md).
constexpr std::int64_t kFewEvaluations = 200;

/// With more `auto` has no mcmc.
constexpr std::int64_t kManyTasks = AutoOptions{}.work / AutoOptions{}.fewest_proposals;

bool may_split(const plan::Problem& problem) {
    return !problem.constraints().whole_ops() && !plan::has_given_costs(problem);
}

bool wants_elimination(const Engine& engine) {
    const plan::Problem& problem = engine.problem();
    const bool few = engine.options().evaluations.value_or(kFewEvaluations + 1) <= kFewEvaluations;
    return few && problem.objective() != plan::Objective::throughput &&
           problem.device_count() > 1 && may_split(problem);
}

using Turns = std::vector<NamedSearcher>;

Turns splitters(Engine& engine, int /*round*/) {
    Turns turns;
    for (const std::string_view name : kFirst) {
        turns.push_back({name, find_searcher(name)->make(engine)});
    }
    if (engine.problem().objective() == plan::Objective::throughput) {
        turns.push_back({"contiguous", std::make_unique<Contiguous>(kQuick)});
    }
    return turns;
}

/// What people configure for models that are too large for everything so far, or for small changes to get
/// far.
Turns configurations(Engine& engine, int /*round*/) {
    Turns turns;
    const plan::Evaluation* const best = engine.best_evaluation();
    const bool fits = best != nullptr && best->feasible();
    const plan::Problem& problem = engine.problem();
    const bool splits = problem.objective() == plan::Objective::step_time && may_split(problem);
    if (splits && (!fits || engine.task_count(*engine.best()) > kManyTasks))
        turns.push_back({"grids", std::make_unique<GridSearch>()});
    return turns;
}

Turns eliminators(Engine& engine, int /*round*/) {
    Turns turns;
    if (!wants_elimination(engine)) return turns;
    turns.push_back({"elimination", std::make_unique<EliminationSearch>(kQuickElimination)});
    return turns;
}

Turns placers(Engine& engine, int /*round*/) {
    Turns turns;
    for (const SearcherRow& row : searcher_table()) {
        const bool named = std::ranges::find(kFirst, row.name) != kFirst.end();
        if (row.in_auto && !named) turns.push_back({row.name, row.make(engine)});
    }
    return turns;
}

}  // namespace

std::vector<Stage> quick_stages(double share) {
    return {{.round = splitters, .begins_below = share, .gives_starts = true},
            {.round = configurations, .begins_below = share, .gives_starts = true},
            {.round = eliminators, .begins_below = share, .gives_starts = true},
            {.round = placers, .begins_below = share, .ends_at = share, .gives_starts = true}};
}

}  // namespace partita::search
