// SPDX-License-Identifier: Apache-2.0
//
// Random: places every group on a device drawn uniformly from those that are allowed and have room,
// again and again. A baseline for searchers that learn, and a fuzzer for everything downstream.
//
// Optimal: no. Ends: with the budget when evaluations are budgeted, else after kRandomSamples.
// Memory: by estimate while drawing; if a whole first batch does not fit, one sample is repaired.
// Random: from the engine's seed alone. Threads: samples of a batch are priced in parallel.
#pragma once

#include <cstdint>

#include "search/core/searcher.h"

namespace partita::search {

inline constexpr int kRandomSamples = 64;

class RandomSearch final : public Searcher {
public:
    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::int64_t samples_ = 0;
};

}  // namespace partita::search
