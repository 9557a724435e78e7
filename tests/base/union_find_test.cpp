// SPDX-License-Identifier: Apache-2.0
#include "base/union_find.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>

namespace partita {
namespace {

// Against sets that are relabelled one member at a time.
RC_GTEST_PROP(UnionFind, RootsAreTheSmallestMembersOfTheirSets, ()) {
    const auto size = *rc::gen::inRange<std::size_t>(1, 30);
    const auto pairs =
        *rc::gen::container<std::vector<std::pair<std::size_t, std::size_t>>>(rc::gen::pair(
            rc::gen::inRange<std::size_t>(0, size), rc::gen::inRange<std::size_t>(0, size)));
    UnionFind sets(size);
    std::vector<std::size_t> label(size);
    for (std::size_t i = 0; i < size; ++i) label[i] = i;
    for (const auto& [a, b] : pairs) {
        sets.unite(a, b);
        const std::size_t low = std::min(label[a], label[b]);
        const std::size_t high = std::max(label[a], label[b]);
        std::replace(label.begin(), label.end(), high, low);
    }
    for (std::size_t i = 0; i < size; ++i) RC_ASSERT(sets.root(i) == label[i]);
}

TEST(UnionFind, EachIsAloneAgainAfterReset) {
    UnionFind sets(3);
    sets.unite(0, 2);
    sets.reset(4);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sets.root(i), i);
}

}  // namespace
}  // namespace partita
