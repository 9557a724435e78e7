// SPDX-License-Identifier: Apache-2.0
//
// The table of searchers: adding a row is the whole registration. It feeds `--searcher`, `--help`,
// the README's table and the conformance test. What auto, mcmc, local-search and exact run stands
// in composed_searchers.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/core/engine.h"
#include "search/core/searcher.h"

namespace partita::search {

/// All rows; `auto` first.
std::span<const SearcherRow> searcher_table();

/// Null when there is none of that name.
const SearcherRow* find_searcher(std::string_view name);

/// One of these names is of a searcher that learns. Unknown ones are not.
bool any_learned(std::span<const std::string> names);

/// "S1,S2,..." as given to --searcher. Throws UsageError naming the unknown one and the known ones.
std::vector<std::string> parse_searchers(std::string_view list);

/// "own", "highs" or "both" as given to --engine. Throws UsageError.
ExactEngine parse_exact_engine(std::string_view name);
std::string_view name_of(ExactEngine engine);

}  // namespace partita::search
