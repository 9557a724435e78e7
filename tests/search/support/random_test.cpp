// SPDX-License-Identifier: Apache-2.0
#include "search/support/random.h"

#include <gtest/gtest.h>

#include <array>

namespace partita::search {
namespace {

TEST(Random, IsXoshiro256StarStarSeededBySplitmix64) {
    // splitmix64 from 0, as its authors print it.
    EXPECT_EQ(mix(0), 0xe220a8397b1dcdafU);
    Random random(0);
    // The state is the first four words of that sequence; computed independently.
    EXPECT_EQ(random.next(), 0x99ec5f36cb75f2b4U);
    EXPECT_EQ(random.next(), 0xbf6e1f784956452aU);
    EXPECT_EQ(random.next(), 0x1a5f849d4933e6e0U);
}

TEST(Random, BoundedIntegersAreUniform) {
    Random random(7);
    std::array<int, 3> seen{};
    for (int i = 0; i < 30'000; ++i) ++seen[static_cast<std::size_t>(random.below(3))];
    // Five standard deviations of a binomial with p = 1/3 are 408.
    for (const int count : seen) EXPECT_NEAR(count, 10'000, 408);
    EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, RealsLieInTheHalfOpenUnitInterval) {
    Random random(3);
    double sum = 0;
    for (int i = 0; i < 10'000; ++i) {
        const double u = random.uniform();
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        sum += u;
    }
    EXPECT_NEAR(sum / 10'000, 0.5, 0.015);
}

TEST(Random, StreamsOfOneSeedDiffer) {
    EXPECT_EQ(Random::stream(1, 0).next(), Random::stream(1, 0).next());
    EXPECT_NE(Random::stream(1, 0).next(), Random::stream(1, 1).next());
    EXPECT_NE(Random::stream(1, 0).next(), Random::stream(2, 0).next());
}

}  // namespace
}  // namespace partita::search
