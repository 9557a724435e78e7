// SPDX-License-Identifier: Apache-2.0
#include "search/seed_search.h"

#include <algorithm>
#include <array>

#include "plan/max_load.h"
#include "search/contiguous.h"
#include "search/elimination.h"
#include "search/engine.h"
#include "search/searchers.h"

namespace partita::search {

namespace {

/// Where ops may be split these find what the placers of whole ops cannot.
constexpr std::array<std::string_view, 3> kFirstWave = {"single-device", "data-parallel", "expert"};
constexpr int kWaves = 2;

/// Ideals that take half a second at most.
constexpr ContiguousOptions kQuick{.most_ideals = 20'000};

/// Lists of configs that are priced in some tenths of a second.
constexpr EliminationOptions kQuickElimination{.most_devices_of_two_axes = 4, .repair = false};

bool may_split(const plan::Problem& problem) {
    return problem.device_count() > 1 && !problem.constraints().whole_ops &&
           !plan::has_given_costs(problem);
}

}  // namespace

SeedSearch::~SeedSearch() = default;

/// The searchers of the next wave; false: there is none.
bool SeedSearch::fill(Engine& engine) {
    if (wave_ == kWaves) return false;
    const bool first = wave_++ == 0;
    for (const SearcherRow& row : searcher_table()) {
        const bool named = std::ranges::find(kFirstWave, row.name) != kFirstWave.end();
        if (row.in_auto && named == first) turns_.push_back({row.name, row.make(engine)});
    }
    if (!first) return true;
    std::ranges::sort(turns_, {}, [](const Turn& turn) {
        return std::ranges::find(kFirstWave, turn.name) - kFirstWave.begin();
    });
    if (engine.problem().objective() == plan::Objective::throughput) {
        turns_.push_back({"contiguous", std::make_unique<Contiguous>(kQuick)});
    } else if (may_split(engine.problem())) {
        turns_.push_back({"elimination", std::make_unique<EliminationSearch>(kQuickElimination)});
    }
    return true;
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
