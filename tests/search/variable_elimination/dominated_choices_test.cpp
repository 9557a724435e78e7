// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/dominated_choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "search/support/random.h"

namespace partita::search {
namespace {

/// The least value of all combinations of these choices.
std::int64_t least(const CostGraph& graph, const std::vector<std::vector<int>>& allowed) {
    std::vector<std::size_t> at(allowed.size(), 0);
    std::vector<int> choices(allowed.size());
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (;;) {
        for (std::size_t v = 0; v < allowed.size(); ++v) choices[v] = allowed[v][at[v]];
        best = std::min(best, value_of(graph, choices));
        std::size_t v = 0;
        while (v < at.size() && ++at[v] == allowed[v].size()) at[v++] = 0;
        if (v == at.size()) return best;
    }
}

TEST(DominatedChoices, LeavingThemOutKeepsTheLeastValue) {
    std::size_t left_out = 0;
    for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
        Random random(seed);
        std::deque<std::vector<std::int64_t>> tables;
        CostGraph graph;
        std::vector<std::vector<int>> all;
        for (int v = 0; v < 5; ++v) {
            graph.nodes.emplace_back();
            all.emplace_back();
            for (int k = 0; k < 4; ++k) {
                graph.nodes.back().push_back(static_cast<std::int64_t>(random.below(12)));
                all.back().push_back(k);
            }
        }
        // Tables that several edges share.
        for (int t = 0; t < 3; ++t) {
            tables.emplace_back();
            for (int i = 0; i < 16; ++i) {
                tables.back().push_back(static_cast<std::int64_t>(random.below(4)));
            }
        }
        for (int e = 0; e < 6; ++e) {
            const int a = static_cast<int>(random.below(5));
            const int b = static_cast<int>(random.below(5));
            if (a != b) graph.edges.push_back({a, b, &tables[random.below(3)]});
        }
        const auto kept = undominated_choices(graph);
        for (const std::vector<int>& choices : kept) {
            ASSERT_FALSE(choices.empty());
            EXPECT_TRUE(std::ranges::is_sorted(choices));
            left_out += 4 - choices.size();
        }
        ASSERT_EQ(least(graph, kept), least(graph, all)) << "seed " << seed;
    }
    EXPECT_GT(left_out, 2'000U);
}

TEST(DominatedChoices, OfEqualOnesTheFirstStays) {
    CostGraph graph;
    graph.nodes = {{5, 3, 3}, {0, 0}};
    const std::vector<std::int64_t> same{1, 2, 1, 2, 1, 2};
    graph.edges = {{0, 1, &same}};
    EXPECT_EQ(undominated_choices(graph), (std::vector<std::vector<int>>{{1}, {0}}));
}

TEST(DominatedChoices, StayWhereANeighbourMayPreferThem) {
    CostGraph graph;
    graph.nodes = {{0, 3}, {0, 0}};
    const std::vector<std::int64_t> crossed{9, 0, 0, 9};
    graph.edges = {{0, 1, &crossed}};
    EXPECT_EQ(undominated_choices(graph), (std::vector<std::vector<int>>{{0, 1}, {0, 1}}));
}

}  // namespace
}  // namespace partita::search
