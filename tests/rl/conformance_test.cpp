// SPDX-License-Identifier: Apache-2.0
//
// The suite that every searcher passes, over those that learn.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rl/rl.h"
#include "search/portfolio/searcher_table.h"
#include "tests/search/conformance.h"

extern "C" partita::search::LearnedSearchers* partita_make_learned(
    const partita::rl::LearnOptions& options);

namespace partita::search {
namespace {

std::vector<SearcherCase> cases() {
    std::vector<SearcherCase> cases;
    for (const SearcherRow& row : searcher_table()) {
        if (!row.learned) continue;
        cases.push_back({.name = std::string(row.name), .learned = [] {
                             return std::unique_ptr<LearnedSearchers>(partita_make_learned({}));
                         }});
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Learned, EverySearcher, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace partita::search
