// SPDX-License-Identifier: Apache-2.0
#include "base/index_set.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "search/support/random.h"

namespace partita {
namespace {

std::vector<std::size_t> members(const IndexSet& set) {
    std::vector<std::size_t> members;
    set.for_each([&](std::size_t index) { members.push_back(index); });
    return members;
}

TEST(IndexSet, IsAnOrderedSetOverAndOver) {
    constexpr std::size_t kBound = 300;
    IndexSet set(kBound);
    search::Random random(1);
    for (int round = 0; round < 200; ++round) {
        std::set<std::size_t> expected;
        for (std::uint64_t left = random.below(20); left > 0; --left) {
            const std::size_t index = random.below(kBound);
            set.insert(index);
            expected.insert(index);
        }
        EXPECT_EQ(set.empty(), expected.empty());
        EXPECT_EQ(members(set), std::vector<std::size_t>(expected.begin(), expected.end()));
        for (std::size_t i = 0; i < kBound; ++i) EXPECT_EQ(set.contains(i), expected.contains(i));
        set.clear();
        EXPECT_TRUE(members(set).empty());
    }
}

TEST(IndexSet, VisitsWhatIsAddedAheadOfTheVisit) {
    IndexSet set(300);
    set.insert(5);
    std::vector<std::size_t> visited;
    set.for_each([&](std::size_t index) {
        visited.push_back(index);
        set.insert(1);  // behind
        if (index < 200) set.insert(index + 58);
    });
    EXPECT_EQ(visited, (std::vector<std::size_t>{5, 63, 121, 179, 237}));
}

TEST(IndexSet, GivesTheMembersOfEitherOnceAndInOrder) {
    search::Random random(2);
    for (int round = 0; round < 100; ++round) {
        constexpr std::size_t kBound = 200;
        IndexSet a(kBound);
        IndexSet b(kBound);
        std::set<std::size_t> either;
        for (IndexSet* const set : {&a, &b}) {
            for (std::uint64_t left = random.below(6); left > 0; --left) {
                const std::size_t index = random.below(kBound);
                set->insert(index);
                either.insert(index);
            }
        }
        std::vector<std::size_t> visited;
        for_each_of_either(a, b, [&](std::size_t index) { visited.push_back(index); });
        EXPECT_EQ(visited, std::vector<std::size_t>(either.begin(), either.end()));
    }
}

}  // namespace
}  // namespace partita
