// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace partita {
namespace {

TEST(Quantile, IsOneOfTheValues) {
    EXPECT_EQ(median<int>({4, 1, 3, 2}), 2);
    EXPECT_EQ(median<int>({5, 1, 3}), 3);
    EXPECT_EQ(quantile<int>({4, 1, 3, 2}, 0.25), 1);
    EXPECT_EQ(quantile<int>({4, 1, 3, 2}, 0.26), 2);
    EXPECT_EQ(quantile<int>({7}, 0.0), 7);
    EXPECT_EQ(quantile<int>({7, 8}, 1.0), 8);
}

RC_GTEST_PROP(Quantile, IsTheSmallestThatAShareDoesNotExceed, ()) {
    auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 9)));
    const auto percent = *rc::gen::inRange(0, 101);
    const int found = quantile(values, percent / 100.0);
    const auto up_to = [&](int value) {
        return 100 * std::ranges::count_if(values, [&](int v) { return v <= value; });
    };
    const auto enough = percent * std::ssize(values);
    RC_ASSERT(std::ranges::find(values, found) != values.end());
    RC_ASSERT(up_to(found) >= enough);
    RC_ASSERT(found == *std::ranges::min_element(values) || up_to(found - 1) < enough);
}

}  // namespace
}  // namespace partita
