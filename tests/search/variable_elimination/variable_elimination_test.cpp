// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/variable_elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "search/support/random.h"

namespace partita::search {
namespace {

/// A graph with the tables that its edges point to.
struct Instance {
    CostGraph graph;
    std::deque<std::vector<std::int64_t>> tables;

    void add_node(Random& random, std::size_t choices) {
        std::vector<std::int64_t>& node = graph.nodes.emplace_back();
        for (std::size_t k = 0; k < choices; ++k) node.push_back(draw(random));
    }
    void add_edge(Random& random, int a, int b) {
        std::vector<std::int64_t>& table = tables.emplace_back();
        const std::size_t size = graph.nodes[static_cast<std::size_t>(a)].size() *
                                 graph.nodes[static_cast<std::size_t>(b)].size();
        for (std::size_t i = 0; i < size; ++i) table.push_back(draw(random));
        graph.edges.push_back({a, b, &table});
    }
    /// Small, so that there are ties.
    static std::int64_t draw(Random& random) {
        return static_cast<std::int64_t>(random.below(random.below(2) == 0 ? 4 : 50));
    }
};

int draw_below(Random& random, std::size_t bound) {
    return static_cast<int>(random.below(bound));
}

/// Any graph, some edges several times and in both directions.
Instance random_instance(Random& random, std::size_t variables, std::size_t edges,
                         std::size_t most_choices) {
    Instance instance;
    for (std::size_t v = 0; v < variables; ++v) {
        instance.add_node(random, 1 + random.below(most_choices));
    }
    for (std::size_t e = 0; e < edges && variables > 1; ++e) {
        const int a = draw_below(random, variables);
        int b = draw_below(random, variables - 1);
        if (b >= a) ++b;
        instance.add_edge(random, a, b);
    }
    return instance;
}

std::int64_t least_of_all(const CostGraph& graph) {
    std::vector<int> choices(graph.nodes.size(), 0);
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (;;) {
        best = std::min(best, value_of(graph, choices));
        std::size_t v = 0;
        while (v < choices.size() && ++choices[v] == std::ssize(graph.nodes[v])) choices[v++] = 0;
        if (v == choices.size()) return best;
    }
}

TEST(VariableElimination, EqualsBruteForceOnRandomGraphs) {
    int widest = 0;
    for (std::uint64_t seed = 1; seed <= 4'000; ++seed) {
        Random random(seed);
        const std::size_t variables = 1 + random.below(7);
        const Instance instance =
            random_instance(random, variables, random.below(3 * variables + 2), 4);
        const Elimination found = eliminate(instance.graph);
        ASSERT_EQ(found.value, least_of_all(instance.graph)) << "seed " << seed;
        EXPECT_EQ(found.value, value_of(instance.graph, found.choices));
        EXPECT_TRUE(found.exact);
        widest = std::max(widest, found.width);
    }
    EXPECT_GE(widest, 4);
}

TEST(VariableElimination, EqualsBruteForceOnChainsDiamondsAndStars) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        Random random(seed);
        Instance chain;
        Instance diamonds;  // 0 ─▶ 1, 2 ─▶ 3 ─▶ 4, 5 ─▶ 6
        Instance star;
        for (Instance* of : {&chain, &diamonds, &star}) {
            for (int v = 0; v < 7; ++v) of->add_node(random, 3);
        }
        for (int v = 0; v + 1 < 7; ++v) chain.add_edge(random, v, v + 1);
        for (const int from : {0, 3}) {
            for (const int middle : {1, 2}) {
                diamonds.add_edge(random, from, from + middle);
                diamonds.add_edge(random, from + middle, from + 3);
            }
        }
        for (int v = 1; v < 7; ++v) star.add_edge(random, 0, v);
        for (const auto& [of, width] :
             {std::pair{&chain, 1}, std::pair{&diamonds, 2}, std::pair{&star, 1}}) {
            const Elimination found = eliminate(of->graph);
            ASSERT_EQ(found.value, least_of_all(of->graph)) << "seed " << seed;
            EXPECT_LE(found.width, width);
        }
    }
}

TEST(VariableElimination, DoesNotDependOnNumbers) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed);
        const Instance instance = random_instance(random, 12, 18, 4);
        std::vector<int> number(12);
        std::iota(number.begin(), number.end(), 0);
        for (std::size_t i = number.size(); i > 1; --i) {
            std::swap(number[i - 1], number[random.below(i)]);
        }
        CostGraph renamed;
        renamed.nodes.resize(12);
        for (std::size_t v = 0; v < 12; ++v) {
            renamed.nodes[static_cast<std::size_t>(number[v])] = instance.graph.nodes[v];
        }
        for (auto edge = instance.graph.edges.rbegin(); edge != instance.graph.edges.rend();
             ++edge) {
            renamed.edges.push_back({number[static_cast<std::size_t>(edge->a)],
                                     number[static_cast<std::size_t>(edge->b)], edge->costs});
        }
        EXPECT_EQ(eliminate(instance.graph).value, eliminate(renamed).value) << "seed " << seed;
    }
}

TEST(VariableElimination, GivesTheSameChoicesEachTime) {
    Random random(3);
    const Instance instance = random_instance(random, 40, 60, 5);
    const Elimination first = eliminate(instance.graph);
    const Elimination second = eliminate(instance.graph);
    EXPECT_EQ(first.choices, second.choices);
    EXPECT_EQ(first.width, second.width);
}

TEST(VariableElimination, FixesVariablesWhereTablesWouldBeTooLarge) {
    int optimal = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed);
        const Instance instance = random_instance(random, 7, 21, 4);
        const Elimination found = eliminate(instance.graph, {.most_entries = 8});
        const std::int64_t best = least_of_all(instance.graph);
        EXPECT_EQ(found.exact, found.fixed == 0);
        if (found.exact) {
            EXPECT_EQ(found.value, best);
        }
        EXPECT_GE(found.value, best);
        EXPECT_EQ(found.value, value_of(instance.graph, found.choices));
        // No single choice is left that would be better.
        for (std::size_t v = 0; v < 7 && !found.exact; ++v) {
            std::vector<int> changed = found.choices;
            for (std::size_t k = 0; k < instance.graph.nodes[v].size(); ++k) {
                changed[v] = static_cast<int>(k);
                EXPECT_GE(value_of(instance.graph, changed), found.value);
            }
        }
        if (found.value == best) ++optimal;
    }
    EXPECT_GT(optimal, 100);
    EXPECT_LT(optimal, 300);  // else nothing was fixed at all
}

TEST(VariableElimination, KeepsItsTablesSmallWhenTheWorkIsSpent) {
    Random random(5);
    const Instance instance = random_instance(random, 60, 300, 6);
    const Elimination found = eliminate(instance.graph, {.most_work = 1'000});
    EXPECT_FALSE(found.exact);
    EXPECT_EQ(found.value, value_of(instance.graph, found.choices));
}

TEST(VariableElimination, EliminatesAHundredThousandVariables) {
    Random random(9);
    Instance instance;
    for (int v = 0; v < 100'000; ++v) instance.add_node(random, 3);
    // A star whose leaves are chains of two.
    for (int v = 1; v < 100'000; v += 2) {
        instance.add_edge(random, 0, v);
        if (v + 1 < 100'000) instance.add_edge(random, v, v + 1);
    }
    const Elimination found = eliminate(instance.graph);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.width, 1);
    EXPECT_EQ(found.value, value_of(instance.graph, found.choices));
}

TEST(VariableElimination, VariablesWithoutAChoiceMakeNoGraphWide) {
    Random random(9);
    Instance instance;
    for (int v = 0; v < 20'000; ++v) instance.add_node(random, v % 100 == 0 ? 3 : 1);
    for (int e = 0; e < 60'000; ++e) {
        const int a = draw_below(random, 20'000);
        const int b = draw_below(random, 20'000);
        if (a != b && (a % 100 != 0 || b % 100 != 0)) instance.add_edge(random, a, b);
    }
    const Elimination found = eliminate(instance.graph);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.width, 0);
    EXPECT_EQ(found.value, value_of(instance.graph, found.choices));
}

TEST(VariableElimination, OfNothingIsNothing) {
    const Elimination found = eliminate({});
    EXPECT_EQ(found.value, 0);
    EXPECT_TRUE(found.choices.empty());
    EXPECT_TRUE(found.exact);
}

}  // namespace
}  // namespace partita::search
