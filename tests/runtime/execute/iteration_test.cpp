// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/iteration.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::runtime {
namespace {

bool is_stable_after(const std::vector<std::int64_t>& durations) {
    std::vector<Iteration> iterations;
    for (const std::int64_t each : durations) {
        Iteration iteration;
        iteration.duration = microseconds(each);
        iterations.push_back(std::move(iteration));
    }
    return is_stable(iterations);
}

TEST(Stable, AreNoFewIterationsHoweverEqual) {
    EXPECT_FALSE(is_stable_after({}));
    EXPECT_FALSE(is_stable_after({100}));
    EXPECT_FALSE(is_stable_after({100, 100, 100, 100}));
    EXPECT_TRUE(is_stable_after({100, 100, 100, 100, 100}));
}

// Middle half 950 to 1050 of a median of 1000: a deviation of 50 / 0.67 = 74.6, of the median of n
// iterations
// 1.25 * 74.6 / sqrt(n), which is 1 % of it from n = 87 on.
TEST(Stable, IsAMedianThatTheSpreadPinsDown) {
    const auto spread = [](int n) {
        std::vector<std::int64_t> durations;
        for (int i = 0; i < n; ++i)
            durations.push_back(i % 3 == 0 ? 950 : i % 3 == 1 ? 1000 : 1050);
        return durations;
    };
    EXPECT_FALSE(is_stable_after(spread(9)));
    EXPECT_FALSE(is_stable_after(spread(84)));
    EXPECT_TRUE(is_stable_after(spread(90)));
}

TEST(Stable, CountsTheMiddleHalfAlone) {
    EXPECT_TRUE(is_stable_after({1, 100, 100, 100, 100, 100, 9'000}));
    EXPECT_FALSE(is_stable_after({50, 50, 50, 100, 150, 150, 150}));
}

}  // namespace
}  // namespace partita::runtime
