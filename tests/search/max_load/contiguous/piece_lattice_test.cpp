// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/piece_lattice.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace partita::search {
namespace {

PieceGraph graph_of(std::size_t size, std::vector<std::pair<std::int32_t, std::int32_t>> edges) {
    PieceGraph graph;
    graph.size = size;
    graph.edges = std::move(edges);
    return graph;
}

std::size_t ideals(const PieceGraph& graph) {
    return PieceLattice::all(graph, 1'000'000)->size();
}

TEST(PieceLattice, HasAllSetsOfIndependentVertices) {
    EXPECT_EQ(ideals(graph_of(0, {})), 1);
    EXPECT_EQ(ideals(graph_of(1, {})), 2);
    EXPECT_EQ(ideals(graph_of(12, {})), 4'096);
}

// 0 ─▶ 1 ─▶ 2 beside 3 ─▶ 4: any prefix of one with any of the other.
TEST(PieceLattice, HasPrefixesOfChains) {
    EXPECT_EQ(ideals(graph_of(3, {{0, 1}, {1, 2}})), 4);
    EXPECT_EQ(ideals(graph_of(5, {{0, 1}, {1, 2}, {3, 4}})), 4 * 3);
}

// Words of 64 vertices: one chain over two of them.
TEST(PieceLattice, CountsMoreVerticesThanAWordHasBits) {
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;
    for (std::int32_t v = 1; v < 130; ++v) edges.emplace_back(v - 1, v);
    EXPECT_EQ(ideals(graph_of(130, edges)), 131);
}

// 0 ─▶ 1, 0 ─▶ 2:   {}   {0}   {0 1} {0 2}   {0 1 2}
TEST(PieceLattice, LinksEachIdealToThoseWithOneVertexLess) {
    const auto lattice = PieceLattice::all(graph_of(3, {{0, 1}, {0, 2}}), 5);
    ASSERT_TRUE(lattice);
    ASSERT_EQ(lattice->size(), 5);
    EXPECT_EQ(lattice->levels(), 4);
    EXPECT_EQ(lattice->level_begin(2), 2);
    EXPECT_TRUE(lattice->steps(0).empty());
    const auto whole = lattice->steps(4);
    ASSERT_EQ(whole.size(), 2);
    EXPECT_EQ(whole[0].vertex, 2);
    EXPECT_EQ(whole[1].vertex, 1);
    EXPECT_EQ(lattice->steps(whole[0].ideal).front().vertex, 1);
    EXPECT_EQ(lattice->steps(whole[1].ideal).front().vertex, 2);
}

TEST(PieceLattice, GivesUpAboveTheMost) {
    EXPECT_TRUE(PieceLattice::all(graph_of(10, {}), 1'024));
    EXPECT_FALSE(PieceLattice::all(graph_of(10, {}), 1'023));
}

}  // namespace
}  // namespace partita::search
