// SPDX-License-Identifier: Apache-2.0
#include "base/csr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "search/support/random.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

TEST(Csr, GrowsRowByRow) {
    Csr<int> lists;
    EXPECT_EQ(lists.rows(), 0U);
    lists.add_row(std::vector{3, 1});
    lists.end_row();
    lists.items.push_back(7);
    lists.end_row();
    ASSERT_EQ(lists.rows(), 3U);
    EXPECT_THAT(lists[0], ElementsAre(3, 1));
    EXPECT_THAT(lists[1], IsEmpty());
    EXPECT_THAT(lists[2], ElementsAre(7));
    lists.clear();
    EXPECT_EQ(lists.rows(), 0U);
    lists.add_row(std::vector{5});
    EXPECT_THAT(lists[0], ElementsAre(5));
}

TEST(Csr, OfPairsHasEachRowSortedAndOnce) {
    search::Random random(1);
    CsrScratch<int> scratch;
    Csr<int> csr;
    for (int round = 0; round < 200; ++round) {
        const std::size_t rows = random.below(9);
        std::vector<std::set<int>> expected(rows);
        std::vector<std::pair<std::int32_t, int>> pairs;
        for (std::uint64_t left = rows == 0 ? 0 : random.below(30); left > 0; --left) {
            const auto row = static_cast<std::int32_t>(random.below(rows));
            const auto item = static_cast<int>(random.below(6));
            pairs.emplace_back(row, item);
            expected[static_cast<std::size_t>(row)].insert(item);
        }
        to_csr(pairs, rows, scratch, csr);
        ASSERT_EQ(csr.rows(), rows);
        for (std::size_t row = 0; row < rows; ++row) {
            EXPECT_THAT(csr[row], ElementsAreArray(expected[row]));
        }
    }
}

}  // namespace
}  // namespace partita
