// SPDX-License-Identifier: Apache-2.0
#include "search/auto_search.h"

#include <algorithm>
#include <utility>

#include "search/calls/search.h"
#include "search/engine.h"
#include "search/loads/search.h"

namespace partita::search {

AutoSearch::AutoSearch(AutoOptions options)
    : options_(options), seeds_(std::make_unique<SeedSearch>(McmcOptions{}.seeding)) {}

/// How mcmc is to go on; nullopt: not at all.
std::optional<McmcOptions> AutoSearch::rest_of_budget(Engine& engine) const {
    McmcOptions rest;
    if (engine.spent()) return rest;
    const auto ops = static_cast<std::int64_t>(engine.problem().graph().op_count());
    auto tasks = static_cast<std::int64_t>(engine.task_count(*engine.best()));
    const bool ordered = engine.best()->policy.schedule != plan::Schedule{};
    if (ordered) tasks *= options_.ordered;
    rest.own_budget = true;
    rest.proposals =
        std::min(options_.most_proposals, options_.work / std::max({ops, tasks, std::int64_t{1}}));
    if (rest.proposals < options_.fewest_proposals) return std::nullopt;
    return rest;
}

/// Null: nothing.
std::unique_ptr<Searcher> AutoSearch::rest(Engine& engine) {
    const bool asked = engine.spent().has_value();
    if (LoadSearch::applies(engine)) {
        engine.set_searcher("local-search");
        return std::make_unique<LoadSearch>(
            LoadSearchOptions{.most_work = options_.most_moves,
                              .work_per_pair = options_.moves_per_pair,
                              .own_budget = !asked});
    }
    if (CallSearch::applies(engine)) {
        engine.set_searcher("local-search");
        return std::make_unique<CallSearch>(CallSearchOptions{.own_budget = !asked});
    }
    const std::optional<McmcOptions> rest = rest_of_budget(engine);
    if (!rest) return nullptr;
    if (rest->own_budget) rounds_ = 1;
    round_begin_ = engine.evaluations();
    return std::make_unique<Mcmc>(*rest, std::move(seeds_));
}

/// Another round of mcmc, from the best plan, where the last one was still improving it.
bool AutoSearch::goes_on(Engine& engine) {
    if (rounds_ == 0 || rounds_ >= options_.most_rounds) return false;
    const std::int64_t end = engine.evaluations();
    if (!engine.improved_since(end - (end - round_begin_) / 4)) return false;
    std::optional<McmcOptions> again = rest_of_budget(engine);
    if (!again) return false;
    again->seeded = false;
    ++rounds_;
    round_begin_ = end;
    rest_ = std::make_unique<Mcmc>(*std::move(again));
    return true;
}

Status AutoSearch::step(Engine& engine) {
    if (rest_) {
        const Status status = rest_->step(engine);
        return status == Status::found && goes_on(engine) ? Status::in_progress : status;
    }
    const Status status = seeds_->step(engine);
    if (status != Status::found || engine.best() == nullptr) return status;
    rest_ = rest(engine);
    return rest_ ? Status::in_progress : Status::found;
}

}  // namespace partita::search
