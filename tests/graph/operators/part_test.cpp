// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "search/support/random.h"

namespace partita::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Part, SizesAreCeilAndTheLastIsSmaller) {
    EXPECT_THAT(part_of(all_positions(5), 2, 0), ElementsAre(Range{0, 3}));
    EXPECT_THAT(part_of(all_positions(5), 2, 1), ElementsAre(Range{3, 5}));
    EXPECT_THAT(part_of(all_positions(7), 3, 2), ElementsAre(Range{6, 7}));
}

TEST(Part, ADegreeThatLeavesAPartEmptyIsIllegal) {
    EXPECT_FALSE(is_legal_degree(4, 3));  // 2, 2, 0
    EXPECT_FALSE(is_legal_degree(5, 4));  // 2, 2, 1, 0
    EXPECT_TRUE(is_legal_degree(5, 3));   // 2, 2, 1
    EXPECT_TRUE(is_legal_degree(1, 1));
    EXPECT_FALSE(is_legal_degree(0, 1));
}

// RULES.md 2: 5 split in 2 and each part in 2 again is 2, 1 | 1, 1; in 4 at once it is illegal.
TEST(Part, SplittingTwiceIsNotSplittingOnce) {
    const Positions first = part_of(all_positions(5), 2, 0);
    const Positions second = part_of(all_positions(5), 2, 1);
    EXPECT_THAT(part_of(first, 2, 0), ElementsAre(Range{0, 2}));
    EXPECT_THAT(part_of(first, 2, 1), ElementsAre(Range{2, 3}));
    EXPECT_THAT(part_of(second, 2, 0), ElementsAre(Range{3, 4}));
    EXPECT_THAT(part_of(second, 2, 1), ElementsAre(Range{4, 5}));
}

TEST(Part, OfBlocksIsThatOfEachBlock) {
    EXPECT_THAT(part_of_blocks(12, 3, 2, 0), ElementsAre(Range{0, 2}, Range{4, 6}, Range{8, 10}));
    EXPECT_THAT(part_of_blocks(12, 3, 2, 1), ElementsAre(Range{2, 4}, Range{6, 8}, Range{10, 12}));
    EXPECT_THAT(part_of_blocks(10, 2, 3, 2), ElementsAre(Range{4, 5}, Range{9, 10}));  // uneven
    EXPECT_EQ(part_of_blocks(12, 1, 5, 1), part_of(all_positions(12), 5, 1));
}

TEST(Part, PositionsWithHolesAreSplitByTheirNumber) {
    const Positions holes{{0, 2}, {4, 6}, {8, 10}};
    EXPECT_THAT(part_of(holes, 2, 0), ElementsAre(Range{0, 2}, Range{4, 5}));
    EXPECT_THAT(part_of(holes, 2, 1), ElementsAre(Range{5, 6}, Range{8, 10}));
}

std::set<std::int64_t> as_set(const Positions& positions) {
    std::set<std::int64_t> set;
    for (const Range range : positions) {
        for (std::int64_t i = range.begin; i < range.end; ++i) set.insert(i);
    }
    return set;
}

Positions random_positions(search::Random& random) {
    Positions positions;
    for (std::int64_t at = 0; at < 30;) {
        const std::int64_t begin = at + 1 + static_cast<std::int64_t>(random.below(4));
        const std::int64_t end = begin + 1 + static_cast<std::int64_t>(random.below(5));
        positions.push_back({begin, end});
        at = end;
    }
    return positions;
}

TEST(Positions, IntersectionAndContainmentAreThoseOfSets) {
    search::Random random(1);
    for (int trial = 0; trial < 500; ++trial) {
        const Positions a = random_positions(random);
        const Positions b = random_positions(random);
        const auto set_a = as_set(a);
        const auto set_b = as_set(b);
        std::set<std::int64_t> both;
        std::set_intersection(set_a.begin(), set_a.end(), set_b.begin(), set_b.end(),
                              std::inserter(both, both.begin()));
        const Positions common = intersection(a, b);
        EXPECT_EQ(as_set(common), both);
        EXPECT_EQ(count(common), static_cast<std::int64_t>(both.size()));
        EXPECT_EQ(contains(a, b),
                  std::includes(set_a.begin(), set_a.end(), set_b.begin(), set_b.end()));
        EXPECT_TRUE(contains(a, common));
    }
}

OpRule rule_with(const std::vector<std::int64_t>& extents) {
    OpRule rule;
    for (const std::int64_t extent : extents)
        rule.factors.push_back({.name = "", .extent = extent});
    return rule;
}

// (3 h d) with 3 x 4 x 4 positions, h split in 2: three runs of 8.
TEST(Region, OfAFusedDimIsStrided) {
    const OpRule rule = rule_with({3, 4, 4});
    const TensorRule tensor{.dims = {{.factors = {0, 1, 2}, .window = std::nullopt}}};
    Box box = whole_box(rule);
    box[1] = part_of(box[1], 2, 1);
    EXPECT_THAT(region_of(rule, tensor, {48}, box).dims[0],
                ElementsAre(Range{8, 16}, Range{24, 32}, Range{40, 48}));
    EXPECT_EQ(region_of(rule, tensor, {48}, whole_box(rule)), whole_region({48}));
}

// RULES.md 2: (b s) = 3 x 3 split in 2 on b is 6 | 3, as one dim of 9 it is 5 | 4.
TEST(Region, OfAMergedDimKeepsItsFactors) {
    const OpRule rule = rule_with({3, 3});
    const TensorRule tensor{.dims = {{.factors = {0, 1}, .window = std::nullopt}}};
    Box box = whole_box(rule);
    box[0] = part_of(box[0], 2, 0);
    EXPECT_THAT(region_of(rule, tensor, {9}, box).dims[0], ElementsAre(Range{0, 6}));
}

// A convolution of kernel 3, padded by 1, over 8 positions in 2 parts: 0-4 and 3-7.
TEST(Region, OfAWindowedDimHasItsHalo) {
    const OpRule rule = rule_with({8});
    const TensorRule tensor{.dims = {{.factors = {0}, .window = Window{.before = 1, .after = 1}}}};
    EXPECT_THAT(region_of(rule, tensor, {8}, {part_of(all_positions(8), 2, 0)}).dims[0],
                ElementsAre(Range{0, 5}));
    EXPECT_THAT(region_of(rule, tensor, {8}, {part_of(all_positions(8), 2, 1)}).dims[0],
                ElementsAre(Range{3, 8}));
}

TEST(Region, OfATensorWithoutDimsIsOneElement) {
    EXPECT_EQ(whole_region({}).volume(), 1);
    EXPECT_FALSE(whole_region({}).empty());
    EXPECT_TRUE(whole_region({2, 0}).empty());
    EXPECT_EQ(whole_region({2, 0}).volume(), 0);
}

/// Of a region the places of its elements in the memory of one that contains it, row by row.
std::vector<std::int64_t> addresses(const Region& outer, const Region& inner) {
    std::vector<std::int64_t> found{0};
    for (std::size_t d = 0; d < outer.dims.size(); ++d) {
        const std::set<std::int64_t> positions = as_set(outer.dims[d]);
        std::vector<std::int64_t> longer;
        for (const std::int64_t address : found) {
            for (const std::int64_t position : as_set(inner.dims[d])) {
                const auto place = std::distance(positions.begin(), positions.find(position));
                longer.push_back(address * static_cast<std::int64_t>(positions.size()) + place);
            }
        }
        found = std::move(longer);
    }
    return found;
}

TEST(Region, IsContiguousWhenItsAddressesAre) {
    search::Random random(11);
    int contiguous = 0;
    for (int trial = 0; trial < 2'000; ++trial) {
        Region outer;
        Region inner;
        for (int d = 0; d < 3; ++d) {
            const std::int64_t extent = 1 + static_cast<std::int64_t>(random.below(4));
            const auto part = [&](const Positions& of) {
                const auto degree = 1 + static_cast<std::int64_t>(random.below(3));
                if (!is_legal_degree(count(of), degree)) return of;
                const auto size = static_cast<std::uint64_t>(degree);
                return part_of(of, degree, static_cast<std::int64_t>(random.below(size)));
            };
            Positions all = all_positions(2 * extent);
            if (random.below(2) == 0) all = part_of_blocks(2 * extent, 2, 1, 0);
            if (random.below(3) == 0 && extent > 1) {
                all = part_of_blocks(2 * extent, 2, extent, 0);  // with holes
            }
            outer.dims.push_back(part(all));
            inner.dims.push_back(part(outer.dims.back()));
        }
        const std::vector<std::int64_t> found = addresses(outer, inner);
        const bool run =
            found.back() - found.front() + 1 == static_cast<std::int64_t>(found.size());
        EXPECT_EQ(is_contiguous(outer, inner), run) << "trial " << trial;
        contiguous += run ? 1 : 0;
    }
    EXPECT_GT(contiguous, 500);
    EXPECT_LT(contiguous, 1'900);
}

/// Parts of any factors cover every result exactly once per part of the factors it lacks.
TEST(Region, PartsOfAMergedDimPartitionIt) {
    search::Random random(7);
    for (int trial = 0; trial < 200; ++trial) {
        const std::int64_t extents[] = {1 + static_cast<std::int64_t>(random.below(5)),
                                        1 + static_cast<std::int64_t>(random.below(5)),
                                        1 + static_cast<std::int64_t>(random.below(5))};
        const OpRule rule = rule_with({extents[0], extents[1], extents[2]});
        const TensorRule tensor{.dims = {{.factors = {0, 1, 2}, .window = std::nullopt}}};
        const std::size_t split = random.below(3);
        const auto degree = 1 + static_cast<std::int64_t>(random.below(4));
        if (!is_legal_degree(extents[split], degree)) continue;
        const Shape shape{extents[0] * extents[1] * extents[2]};
        std::set<std::int64_t> seen;
        for (std::int64_t part = 0; part < degree; ++part) {
            Box box = whole_box(rule);
            box[split] = part_of(box[split], degree, part);
            const auto covered = as_set(region_of(rule, tensor, shape, box).dims[0]);
            EXPECT_FALSE(covered.empty());
            for (const std::int64_t position : covered) EXPECT_TRUE(seen.insert(position).second);
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), shape[0]);
    }
}

}  // namespace
}  // namespace partita::graph
