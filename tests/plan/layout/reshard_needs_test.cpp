// SPDX-License-Identifier: Apache-2.0
//
// Lists that pieces share say what each piece for itself finds among all old shards.
#include "plan/layout/reshard_needs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plan/layout/replica_choice.h"
#include "plan/layout/shards.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

constexpr int kDevicesOfNeeds = 12;

/// Of a new piece, by looking at every old shard.
std::vector<Need> literal_needs(const LayoutPair& pair, const Shards& old, std::int32_t target,
                                std::int32_t rank, bool same_ranks, RegionTable& regions,
                                ReplicaChoice& choice) {
    std::vector<Need> needs;
    const Piece& piece = pair.target(target);
    if (piece.region < 0 || regions.volume(piece.region) == 0) return needs;
    for (std::size_t i = 0; i < old.size(); ++i) {
        if (pair.to.is_partial() && old[i].summand != piece.summand) continue;
        const std::int32_t common = regions.intersection(old[i].region, piece.region);
        if (common < 0) continue;
        const auto t = static_cast<std::size_t>(target);
        const std::int32_t source = same_ranks
                                        ? old.replicas(i)[static_cast<std::size_t>(old.rank_of(t))]
                                        : choice.choose(i, piece.device, rank);
        needs.push_back({source, common});
    }
    return needs;
}

void expect_literal_needs(const LayoutPair& pair, bool same_ranks, RegionTable& regions,
                          const cost::Machine& machine) {
    Shards old;
    old.find(pair.from, regions);
    Shards fresh;
    fresh.find(pair.to, regions);
    ReshardNeeds needs;
    needs.find(pair, old, same_ranks, regions, machine);
    ReplicaChoice choice;
    choice.prepare(pair.from, old, machine);
    for (std::int32_t t = 0; t < std::ssize(pair.to.pieces); ++t) {
        const std::int32_t rank = fresh.rank_of(static_cast<std::size_t>(t));
        const std::vector<Need> expected =
            literal_needs(pair, old, t, rank, same_ranks, regions, choice);
        const NeedList found = needs[t];
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(found[i].source, expected[i].source);
            EXPECT_EQ(found[i].region, expected[i].region);
        }
    }
}

TEST(ReshardNeeds, AreThoseOfAllOldShards) {
    const cost::Machine machine =
        switched_machine(kDevicesOfNeeds, {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2});
    for (const std::uint64_t seed : support::seeds(2'000)) {
        Random random(seed);
        const graph::Shape shape = draw_shape(random);
        RegionTable regions;
        const SplitOp producer = draw_producer(random, shape, kDevicesOfNeeds);
        const Layout from = layout_of(producer, Side::result, shape, regions);
        const bool pass = from.combine == graph::Combine::sum && draw(random, 3) == 0;
        const SplitOp consumer =
            draw_consumer(random, shape, kDevicesOfNeeds, pass ? from.summands : 1);
        const Layout to = layout_of(consumer, Side::operand, shape, regions);
        expect_literal_needs({from, to}, /*same_ranks=*/false, regions, machine);
        if (!from.is_partial()) continue;
        Layout combined{.pieces = from.pieces};
        for (Piece& piece : combined.pieces) piece.summand = 0;
        expect_literal_needs({from, combined}, /*same_ranks=*/true, regions, machine);
    }
}

/// Rows of a matrix, in equal parts.
class OfRanks : public testing::Test {
protected:
    static constexpr int kRanks = 64;

    std::int32_t rows(std::int64_t begin, std::int64_t end) {
        graph::Region region = graph::whole_region({kRanks, 4});
        region.dims[0] = {{begin, end}};
        return regions_.intern(region);
    }
    Layout addends() {
        Layout layout{.summands = kRanks, .combine = graph::Combine::sum};
        for (int i = 0; i < kRanks; ++i) layout.pieces.push_back({i, rows(0, kRanks), i});
        return layout;
    }
    Layout whole() {
        Layout layout;
        for (int i = 0; i < kRanks; ++i) layout.pieces.push_back({i, rows(0, kRanks)});
        return layout;
    }
    Layout parts() {
        Layout layout;
        for (int i = 0; i < kRanks; ++i) layout.pieces.push_back({i, rows(i, i + 1)});
        return layout;
    }
    const ReshardNeeds& needs(const Layout& from, const Layout& to) {
        Shards old;
        old.find(from, regions_);
        needs_.find({from, to}, old, /*same_ranks=*/false, regions_, machine_);
        return needs_;
    }

    cost::Machine machine_ = switched_machine(kRanks);
    RegionTable regions_;
    ReshardNeeds needs_;
};

// One list is of pieces that need nothing.
TEST_F(OfRanks, CollectivesListWhatTheyExchangeOnce) {
    EXPECT_EQ(needs(addends(), whole()).source_lists(), 2);
    EXPECT_EQ(needs_.rows(), 2);
    EXPECT_TRUE(needs_[kRanks - 1].has_one_region());
    EXPECT_EQ(needs(addends(), parts()).source_lists(), 2);
    EXPECT_EQ(needs_.rows(), kRanks + 1);
    EXPECT_TRUE(needs_[kRanks - 1].has_one_region());
    EXPECT_EQ(needs_[kRanks - 1].size(), kRanks);
    EXPECT_EQ(needs(parts(), whole()).source_lists(), 2);
    EXPECT_EQ(needs_.rows(), 2);
    EXPECT_EQ(needs_[0].size(), kRanks);
}

}  // namespace
}  // namespace partita::plan
