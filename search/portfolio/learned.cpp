// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/learned.h"

#include "base/error.h"
#include "search/core/engine.h"

namespace partita::search {

LearnedSearchers& learned_searchers(const EngineOptions& options) {
    if (options.learned != nullptr) return *options.learned;
    throw UsageError(
        "--searcher: none that learns is here. Install LibTorch with scripts/setup and build "
        "again, "
        "or name another searcher.");
}

}  // namespace partita::search
