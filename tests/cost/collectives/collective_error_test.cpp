// SPDX-License-Identifier: Apache-2.0
//
// How well the NCCL-like model predicts numbers of ranks that it was not fitted to, on the measured
// logs: the promise of docs/cost-model.md.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "bench/collective_models.h"
#include "bench/collective_series.h"

namespace partita::bench {
namespace {

TEST(CollectiveError, NumbersOfRanksThatWereLeftOutArePredicted) {
    Errors points;
    double sets = 0;
    double mean = 0;
    double mean_large = 0;
    for (const Series& series : read_series()) {
        if (!series.in_mean()) continue;
        const Errors errors = leave_ranks_out_nccl(series);
        points.add(errors);
        ++sets;
        mean += errors.mean();
        mean_large += errors.mean_large();
        EXPECT_LE(errors.mean(), 0.12) << series.machine->set;
    }
    EXPECT_EQ(sets, 3);
    EXPECT_LE(mean / sets, 0.12);
    EXPECT_LE(mean_large / sets, 0.05);
    EXPECT_LE(points.mean(), 0.12);
    EXPECT_LE(points.mean_large(), 0.05);
}

TEST(CollectiveError, PredictsLeftOutRanksBetterThanFiveFreeParameters) {
    for (const Series& series : read_series()) {
        if (!series.in_mean()) continue;
        const PointModel model = five(series.kind);
        const Errors plain = leave_ranks_out(series, model, [&](std::span<const Point> points) {
            return fit(model, points, five_prior());
        });
        EXPECT_LT(leave_ranks_out_nccl(series).mean(), plain.mean()) << series.machine->set;
    }
}

TEST(CollectiveFit, FindsTheConstantsThatMadeThePoints) {
    const Prior prior{{10, 1}, {100, 100}};
    const PointModel line = [](std::span<const double> x, const Point& p) {
        return x[0] + x[1] * static_cast<double>(p.bytes.raw());
    };
    std::vector<Point> points;
    for (std::int64_t size = 1; size < 1000; size *= 3) {
        points.push_back({2, 1, Bytes{size}, 3.0 + 0.5 * static_cast<double>(size)});
    }
    const auto found = fit(line, points, prior);
    EXPECT_NEAR(found[0], 3, 1e-3);
    EXPECT_NEAR(found[1], 0.5, 1e-4);
}

}  // namespace
}  // namespace partita::bench
