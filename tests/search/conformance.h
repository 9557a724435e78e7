// SPDX-License-Identifier: Apache-2.0
//
// What every searcher owes, whatever it does. The suite is compiled into each test program that has
// searchers, which instantiates it for its own:
//
//     INSTANTIATE_TEST_SUITE_P(Mine, EverySearcher, testing::ValuesIn(...), case_name);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "plan/problem/problem.h"
#include "search/portfolio/learned.h"
#include "search/portfolio/search_run.h"

namespace partita::search {

struct SearcherCase {
    std::string name;  ///< as for --searcher
    /// Of searchers that learn: for each search anew. Empty: it learns nothing.
    std::function<std::unique_ptr<LearnedSearchers>()> learned;

    friend std::ostream& operator<<(std::ostream& stream, const SearcherCase& of) {
        return stream << of.name;
    }
};

/// "m_etf" for "m-etf".
std::string case_name(const testing::TestParamInfo<SearcherCase>& info);

class EverySearcher : public testing::TestWithParam<SearcherCase> {
protected:
    static EngineOptions options(std::int64_t evaluations = 40);
    static SearchResult run(const plan::Problem& problem, EngineOptions options);
    /// A feasible result is complete, verified and not below the bound; an infeasible one says what
    /// is short.
    static void expect_sound(const plan::Problem& problem, const SearchResult& result);
    static void expect_complete(const plan::Problem& problem, const SearchResult& result);
};

}  // namespace partita::search
