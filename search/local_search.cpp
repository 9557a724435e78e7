// SPDX-License-Identifier: Apache-2.0
#include "search/local_search.h"

#include <utility>

#include "search/calls/search.h"
#include "search/engine.h"
#include "search/loads/search.h"
#include "search/mcmc.h"

namespace partita::search {

namespace {

constexpr int kShakes = 40;

/// What goes on from the plans of the quick searchers. A kind of problem with a search of its own is a line
/// here.
std::unique_ptr<Searcher> search_for(const Engine& engine, std::unique_ptr<SeedSearch> seeds) {
    if (LoadSearch::applies(engine)) return std::make_unique<LoadSearch>();
    if (CallSearch::applies(engine)) return std::make_unique<CallSearch>();
    return std::make_unique<Mcmc>(McmcOptions{.shakes = kShakes, .name = "local-search"},
                                  std::move(seeds));
}

}  // namespace

LocalSearch::LocalSearch() : seeds_(std::make_unique<SeedSearch>(McmcOptions{}.seeding)) {}

LocalSearch::~LocalSearch() = default;

Status LocalSearch::step(Engine& engine) {
    if (rest_) return rest_->step(engine);
    const Status status = seeds_->step(engine);
    if (status != Status::found || engine.best() == nullptr) return status;
    engine.set_searcher("local-search");
    rest_ = search_for(engine, std::move(seeds_));
    return Status::in_progress;
}

}  // namespace partita::search
