// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/stage_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "search/support/random.h"

namespace partita::search {
namespace {

/// A few groups and stages, small enough to try all cuts.
struct CutCase {
    std::vector<CutStage> stages;
    std::vector<Bytes> bytes;
    int micro_batches = 1;
};

CutCase random_case(std::uint64_t seed) {
    constexpr std::int64_t kScale = 1'000'000;
    Random random(seed);
    const auto up_to = [&](std::uint64_t most) {
        return static_cast<std::int64_t>(random.below(most + 1));
    };
    const auto groups = static_cast<std::size_t>(1 + up_to(6));
    CutCase made{.stages = std::vector<CutStage>(static_cast<std::size_t>(2 + up_to(1))),
                 .bytes = {},
                 .micro_batches = static_cast<int>(1 + up_to(7))};
    for (std::size_t g = 0; g < groups; ++g) made.bytes.emplace_back(up_to(5));
    for (std::size_t s = 0; s < made.stages.size(); ++s) {
        const std::int64_t slowness = 1 + up_to(4);
        made.stages[s].memory = Bytes(5 + up_to(25));
        for (std::size_t g = 0; g < groups; ++g) {
            made.stages[s].work.emplace_back(kScale * slowness * up_to(9));
            if (s > 0) made.stages[s].send.emplace_back(kScale * up_to(20));
        }
    }
    return made;
}

/// The formula at the head of stage_cut.h; infinite where the memory is too small.
double value_of(const CutCase& of, const std::vector<int>& stage) {
    std::vector<double> loads(2 * of.stages.size());
    std::vector<Bytes> bytes(of.stages.size());
    for (std::size_t g = 0; g < stage.size(); ++g) {
        const auto s = static_cast<std::size_t>(stage[g]);
        loads[s] += static_cast<double>(of.stages[s].work[g].raw());
        bytes[s] += of.bytes[g];
        const bool border = g > 0 && stage[g - 1] != stage[g];
        if (border) {
            loads[of.stages.size() + s] = static_cast<double>(of.stages[s].send[g].raw());
        }
    }
    double sum = 0;
    for (std::size_t s = 0; s < of.stages.size(); ++s) {
        if (bytes[s] > of.stages[s].memory) return std::numeric_limits<double>::infinity();
    }
    for (const double load : loads) sum += load;
    const double busiest = *std::ranges::max_element(loads);
    return busiest + (sum - busiest) / of.micro_batches;
}

double least_value(const CutCase& of, std::vector<int>& stage, std::size_t g = 0) {
    if (g == stage.size()) return value_of(of, stage);
    double least = std::numeric_limits<double>::infinity();
    for (int s = g == 0 ? 0 : stage[g - 1]; s < static_cast<int>(of.stages.size()); ++s) {
        stage[g] = s;
        least = std::min(least, least_value(of, stage, g + 1));
    }
    return least;
}

void expect_good_cuts(const CutCase& of) {
    const std::vector<StageCut> cuts = cut_into_stages(of.stages, of.bytes, of.micro_batches);
    double best = std::numeric_limits<double>::infinity();
    for (const StageCut& cut : cuts) {
        ASSERT_EQ(cut.stage.size(), of.bytes.size());
        EXPECT_TRUE(std::ranges::is_sorted(cut.stage));
        EXPECT_LE(value_of(of, cut.stage), cut.estimate * (1 + 1e-9));
        best = std::min(best, cut.estimate);
    }
    std::vector<int> stage(of.bytes.size());
    const double least = least_value(of, stage);
    EXPECT_EQ(cuts.empty(), least == std::numeric_limits<double>::infinity());
    if (cuts.empty()) return;
    constexpr double kWithin = 1 + 1.0 / 7;  // limits fall by an eighth
    EXPECT_LE(best, least * kWithin + 10);   // whole picoseconds
}

TEST(StageCut, IsLegalAndTheBestIsNearTheBestOfAll) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(seed);
        expect_good_cuts(random_case(seed));
    }
}

}  // namespace
}  // namespace partita::search
