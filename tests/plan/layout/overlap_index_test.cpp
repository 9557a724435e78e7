// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/overlap_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/operators/part.h"
#include "plan/layout/layout.h"
#include "tests/plan/layout/random_layouts.h"

namespace partita::plan {
namespace {

using graph::Positions;
using graph::Region;
using search::Random;
using testing::ElementsAre;

/// Of several ranges half of the time, never of none.
Positions random_positions(Random& random) {
    Positions positions;
    int end = 0;
    for (int ranges = 1 + draw(random, 4) / 2; ranges > 0; --ranges) {
        const int begin = end + 1 + draw(random, 6);
        end = begin + 1 + draw(random, 6);
        positions.push_back({begin, end});
    }
    return positions;
}

std::vector<std::int32_t> random_regions(Random& random, int dims, RegionTable& table) {
    std::vector<std::int32_t> regions;
    for (int count = draw(random, 20); count > 0; --count) {
        Region region;
        for (int d = 0; d < dims; ++d) region.dims.push_back(random_positions(random));
        regions.push_back(table.intern(region));
    }
    return regions;
}

// What lies elsewhere along one dim may be left out, and nothing else.
TEST(OverlapIndex, FindsAllThatOverlapInTheirOrder) {
    OverlapIndex index;
    for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
        Random random(seed);
        RegionTable table;
        const int dims = draw(random, 4);
        const std::vector<std::int32_t> regions = random_regions(random, dims, table);
        const std::vector<std::int32_t> others = random_regions(random, dims, table);
        index.build(regions, others, table);
        for (const std::int32_t other : others) {
            const std::span<const std::int32_t> near = index.near(other, table);
            EXPECT_TRUE(std::is_sorted(near.begin(), near.end()));
            for (std::size_t i = 0; i < regions.size(); ++i) {
                const bool found = std::binary_search(near.begin(), near.end(), i);
                EXPECT_TRUE(found || !table.overlap(regions[i], other)) << "seed " << seed;
            }
        }
    }
}

// 16 rows in 4 parts: those of the header. Columns are not split, so it looks along rows.
TEST(OverlapIndex, LeavesOutWhatLiesElsewhere) {
    RegionTable table;
    const auto rows = [&](int begin, int end) {
        return table.intern(Region{{Positions{{0, 64}}, Positions{{begin, end}}}});
    };
    const std::vector<std::int32_t> regions{rows(0, 4), rows(8, 12), rows(4, 8), rows(0, 4)};
    const std::vector<std::int32_t> others{rows(2, 6), rows(12, 16)};
    OverlapIndex index;
    index.build(regions, others, table);
    EXPECT_THAT(index.near(others[0], table), ElementsAre(0, 2, 3));
    EXPECT_THAT(index.near(others[1], table), ElementsAre());
}

}  // namespace
}  // namespace partita::plan
