// SPDX-License-Identifier: Apache-2.0
//
// Local search: after the quick searchers have had their turn, goes on improving the best plan by small
// changes that are priced exactly by what they change.
//
//     given costs, throughput    annealing of whole assignments, by moves and exchanges of single vertices
//                                and of blocks that hang together (loads/search.h)
//     given costs, latency       annealing too, by regions of the graph and exchanges under the memory limit
//                                (calls/search.h)
//     everything else            iterated descent with the moves of mcmc (moves/move.h): chains go downhill,
//                                and are shaken at times (McmcOptions::shakes)
//
// Optimal: no; never worse than a quick searcher that had its turn. Ends: with the budget; without one after
// some million moves or thousand proposals.
// Threads: the result does not depend on their number.
#pragma once

#include <memory>

#include "search/searcher.h"
#include "search/seed_search.h"

namespace partita::search {

class LocalSearch final : public Searcher {
public:
    LocalSearch();
    ~LocalSearch() override;
    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::unique_ptr<SeedSearch> seeds_;
    std::unique_ptr<Searcher> rest_;
};

}  // namespace partita::search
