// SPDX-License-Identifier: Apache-2.0
//
// What a table says of regions by number is what graph/operators/part.h says of the regions
// themselves.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/hash_index.h"
#include "graph/operators/part.h"
#include "plan/layout/layout.h"
#include "tests/plan/layout/random_layouts.h"

namespace partita::plan {
namespace {

using graph::Positions;
using graph::Region;
using search::Random;

constexpr int kExtent = 7;

/// Each position or not: ranges, holes, or nothing at all.
Positions drawn_positions(Random& random) {
    Positions positions;
    const int kind = draw(random, 4);
    for (int i = 0; i < kExtent; ++i) {
        if (kind > 0 && draw(random, 4) < kind) continue;
        if (!positions.empty() && positions.back().end == i) {
            ++positions.back().end;
        } else {
            positions.push_back({i, i + 1});
        }
    }
    return positions;
}

Region random_region(Random& random) {
    Region region;
    for (int d = 0; d < 3; ++d) region.dims.push_back(drawn_positions(random));
    return region;
}

TEST(RegionTable, GivesEqualRegionsEqualNumbers) {
    Random random(1);
    RegionTable table;
    std::vector<std::int32_t> numbers;
    std::vector<Region> regions;
    for (int i = 0; i < 300; ++i) {
        regions.push_back(random_region(random));
        numbers.push_back(table.intern(regions.back()));
        EXPECT_EQ(table[numbers.back()], regions.back());
        EXPECT_EQ(table.volume(numbers.back()), regions.back().volume());
    }
    for (std::size_t i = 0; i < regions.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_EQ(numbers[i] == numbers[j], regions[i] == regions[j]);
        }
    }
}

TEST(RegionTable, SaysOfNumbersWhatIsTrueOfRegions) {
    int empty = 0;
    int inside = 0;
    int contiguous = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
        Random random(seed);
        RegionTable table;
        const Region a = random_region(random);
        Region b = random_region(random);
        if (seed % 2 == 0) b = intersection(a, b);
        const std::int32_t id_a = table.intern(a);
        const std::int32_t id_b = table.intern(b);
        const Region common = intersection(a, b);
        EXPECT_EQ(table.overlap(id_a, id_b), !common.empty()) << "seed " << seed;
        EXPECT_EQ(table.contains(id_a, id_b), contains(a, b)) << "seed " << seed;
        for (int again = 0; again < 2; ++again) {
            const std::int32_t id = table.intersection(id_a, id_b);
            ASSERT_EQ(id < 0, common.empty()) << "seed " << seed;
            if (id < 0) continue;
            EXPECT_EQ(table[id], common) << "seed " << seed;
            EXPECT_EQ(table.is_contiguous(id_a, id), is_contiguous(a, common)) << "seed " << seed;
            contiguous += is_contiguous(a, common) ? 1 : 0;
        }
        empty += common.empty() ? 1 : 0;
        inside += contains(a, b) && !b.empty() ? 1 : 0;
    }
    // All that is asked happens.
    EXPECT_GT(empty, 100);
    EXPECT_GT(inside, 100);
    EXPECT_GT(contiguous, 100);
}

TEST(HashIndex, FindsWhatWasAddedAmongEqualHashes) {
    std::vector<int> items;
    HashIndex index;
    const auto find = [&](int item) {
        return index.find(static_cast<std::uint64_t>(item % 3), [&](std::int32_t i) {
            return items[static_cast<std::size_t>(i)] == item;
        });
    };
    EXPECT_EQ(find(0), -1);
    for (int item = 0; item < 100; ++item) {
        EXPECT_EQ(find(item), -1);
        index.add(static_cast<std::uint64_t>(item % 3), static_cast<std::int32_t>(items.size()));
        items.push_back(item);
    }
    for (int item = 0; item < 100; ++item) EXPECT_EQ(find(item), item);
    EXPECT_EQ(find(100), -1);
    EXPECT_EQ(index.size(), 100U);
}

}  // namespace
}  // namespace partita::plan
