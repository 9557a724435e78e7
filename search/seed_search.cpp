// SPDX-License-Identifier: Apache-2.0
#include "search/seed_search.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "plan/evaluation/max_load.h"
#include "search/contiguous.h"
#include "search/elimination.h"
#include "search/engine.h"
#include "search/searchers.h"

namespace partita::search {

namespace {

/// Where ops may be split these find what the placers of whole ops cannot.
constexpr std::array<std::string_view, 3> kFirstWave = {"single-device", "data-parallel", "expert"};
constexpr int kWaves = 3;

/// Ideals that take half a second at most.
constexpr ContiguousOptions kQuick{.most_ideals = 20'000};

/// Lists of configs that are priced in some tenths of a second.
constexpr EliminationOptions kQuickElimination{.most_devices_of_two_axes = 4, .repair = false};

/// With more, mcmc goes on further from what the others find: the optimum if nothing overlaps is hard to
/// leave by small changes (docs/search.md).
constexpr std::int64_t kFewEvaluations = 200;

bool wants_elimination(const Engine& engine) {
    const plan::Problem& problem = engine.problem();
    const bool few = engine.options().evaluations.value_or(kFewEvaluations + 1) <= kFewEvaluations;
    return few && problem.objective() != plan::Objective::throughput &&
           problem.device_count() > 1 && !problem.constraints().whole_ops &&
           !plan::has_given_costs(problem);
}

}  // namespace

SeedSearch::~SeedSearch() = default;

/// The searchers of the next wave, if there are any for the problem; false: that was the last.
bool SeedSearch::fill(Engine& engine) {
    const bool throughput = engine.problem().objective() == plan::Objective::throughput;
    switch (wave_++) {
    case 0:
        for (const std::string_view name : kFirstWave) add(engine, *find_searcher(name));
        if (throughput) turns_.push_back({"contiguous", std::make_unique<Contiguous>(kQuick)});
        return true;
    case 1:
        if (wants_elimination(engine)) {
            turns_.push_back(
                {"elimination", std::make_unique<EliminationSearch>(kQuickElimination)});
        }
        return true;
    case 2:
        for (const SearcherRow& row : searcher_table()) {
            const bool named = std::ranges::find(kFirstWave, row.name) != kFirstWave.end();
            if (row.in_auto && !named) add(engine, row);
        }
        return true;
    default: return false;
    }
}

void SeedSearch::add(Engine& engine, const SearcherRow& row) {
    turns_.push_back({row.name, row.make(engine)});
}

Status SeedSearch::step(Engine& engine) {
    const bool share_spent = engine.best() != nullptr && engine.spent().value_or(0) >= share_;
    if (share_spent && (turns_.empty() || wave_ == kWaves)) return Status::found;
    while (turns_.empty()) {
        if (!fill(engine)) return Status::found;
    }
    if (next_ >= turns_.size()) next_ = 0;
    engine.set_searcher(turns_[next_].name);
    const Status status = turns_[next_].searcher->step(engine);
    if (engine.best() != nullptr &&
        (starts_.empty() || !(starts_.back().first == *engine.best()))) {
        starts_.emplace_back(*engine.best(), *engine.best_evaluation());
    }
    if (status == Status::optimal) return status;
    if (status == Status::in_progress) {
        ++next_;
    } else {
        turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(next_));
    }
    return Status::in_progress;
}

}  // namespace partita::search
