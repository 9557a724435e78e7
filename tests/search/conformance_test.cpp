// SPDX-License-Identifier: Apache-2.0
//
// One suite over every row of the table, but for those of searchers that learn (tests/rl/).
#include <vector>

#include <gtest/gtest.h>

#include "search/portfolio/searcher_table.h"
#include "tests/search/conformance.h"

namespace partita::search {
namespace {

std::vector<SearcherCase> cases() {
    std::vector<SearcherCase> cases;
    for (const SearcherRow& row : searcher_table()) {
        if (!row.learned) cases.push_back({.name = std::string(row.name), .learned = {}});
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Searchers, EverySearcher, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace partita::search
