// SPDX-License-Identifier: Apache-2.0
//
// Reshards between random layouts of random small tensors, run on integers: every piece gets its
// elements, each addend once, and every collective does what its name promises.
#include "plan/layout/reshard.h"
#include "plan/layout/reshard_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/layout/scatter_gather.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/layout/reshard_execution.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

constexpr int kDevices = 12;

/// One node, two equal ones, uneven ones, a node per device, three behind a slow network.
const std::vector<cost::Machine>& machines() {
    static const std::vector<cost::Machine> kAll{
        switched_machine(kDevices),
        switched_machine(kDevices, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}),
        switched_machine(kDevices, {0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2}),
        switched_machine(kDevices, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
        machine_of_nodes(3, kDevices / 3),
    };
    return kAll;
}

/// A tensor in one layout, to be brought into another.
struct Pair {
    graph::Shape shape;
    RegionTable regions;
    Layout from;
    Layout to;
};

/// Half of the time on devices of the other's, as collectives need them.
void meet(Random& random, const SplitOp& a, SplitOp& b) {
    const int count = b.config.devices.size();
    if (draw(random, 2) == 0 || a.config.devices.size() < count) return;
    std::vector<int> devices;
    for (int i = 0; i < count; ++i) devices.push_back(a.config.devices[i]);
    b.config.devices = DeviceSet::list(std::move(devices));
}

/// What lowering asks for: a result to a consumer or to an update, a gradient to its producer.
Pair draw_pair(Random& random) {
    Pair pair{.shape = draw_shape(random), .regions = {}, .from = {}, .to = {}};
    const auto layout = [&](const SplitOp& op, Side side) {
        return layout_of(op, side, pair.shape, pair.regions);
    };
    const SplitOp producer = draw_producer(random, pair.shape, kDevices);
    switch (draw(random, 3)) {
    case 0: {
        pair.from = layout(producer, Side::result);
        const bool pass = pair.from.combine == graph::Combine::sum && draw(random, 3) == 0;
        SplitOp consumer =
            draw_consumer(random, pair.shape, kDevices, pass ? pair.from.summands : 1);
        meet(random, producer, consumer);
        pair.to = layout(consumer, Side::operand);
        break;
    }
    case 1: {
        SplitOp consumer = draw_consumer(random, pair.shape, kDevices);
        meet(random, producer, consumer);
        pair.from = layout(consumer, Side::operand_gradient);
        pair.to = layout(producer, Side::result_gradient);
        break;
    }
    default: {
        SplitOp update = draw_producer(random, pair.shape, kDevices);
        meet(random, producer, update);
        pair.from = layout(producer, Side::result);
        pair.to = layout(update, Side::result_gradient);
        break;
    }
    }
    return pair;
}

/// Random values; replicas hold the same.
PieceValues draw_values(Random& random, const Pair& pair) {
    std::map<std::pair<std::int32_t, std::int32_t>, SparseValue> known;
    PieceValues values;
    for (const Piece& piece : pair.from.pieces) {
        SparseValue value = unknown(pair.shape);
        if (piece.region >= 0) {
            for_each_element(pair.regions[piece.region], pair.shape,
                             [&](std::size_t e) { value.set(e, draw(random, 7) - 3); });
            value = known.emplace(std::pair{piece.region, piece.summand}, value).first->second;
        }
        values.push_back(std::move(value));
    }
    return values;
}

/// The tensor, or of a partial one the addend `summand` (-1: all of them combined). What nobody
/// gives a gradient for stays unknown.
SparseValue logical(const Pair& pair, const PieceValues& values, std::int32_t summand) {
    std::map<std::int32_t, SparseValue> addends;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const Piece& piece = pair.from.pieces[i];
        if (summand >= 0 && piece.summand != summand) continue;
        SparseValue& addend = addends.emplace(piece.summand, unknown(pair.shape)).first->second;
        for (std::size_t e = 0; e < addend.data.size(); ++e) {
            if (values[i].knows(e)) addend.set(e, values[i].data[e]);
        }
    }
    SparseValue tensor = unknown(pair.shape);
    for (const auto& [number, addend] : addends) {
        for (std::size_t e = 0; e < tensor.data.size(); ++e) {
            if (!addend.knows(e)) continue;
            tensor.set(e, tensor.knows(e)
                              ? combined(pair.from.combine, tensor.data[e], addend.data[e])
                              : addend.data[e]);
        }
    }
    return tensor;
}

std::string text_of(const Pair& pair) {
    std::string shape;
    for (const std::int64_t extent : pair.shape) shape += " " + std::to_string(extent);
    return "shape" + shape + "\nfrom " + text_of(pair.from, pair.regions) + "\nto " +
           text_of(pair.to, pair.regions);
}

/// nullopt: every piece of the new layout holds exactly its elements.
std::optional<std::string> find_fault(Random& random, Pair& pair, const cost::Machine& machine,
                                      TransferCounts& counts) {
    const PieceValues values = draw_values(random, pair);
    PieceValues supplied;
    try {
        supplied =
            run_reshard(pair.from, pair.to, values, pair.shape, pair.regions, machine, counts);
    } catch (const std::exception& error) {
        return error.what();
    }
    for (std::size_t i = 0; i < supplied.size(); ++i) {
        const Piece& piece = pair.to.pieces[i];
        SparseValue expected = unknown(pair.shape);
        if (piece.region >= 0) {
            const SparseValue tensor =
                logical(pair, values, pair.to.is_partial() ? piece.summand : -1);
            for_each_element(pair.regions[piece.region], pair.shape, [&](std::size_t e) {
                if (tensor.knows(e)) expected.set(e, tensor.data[e]);
            });
        }
        if (supplied[i] != expected) {
            return "device " + std::to_string(piece.device) + " gets other elements";
        }
    }
    return std::nullopt;
}

TEST(Reshard, GivesEveryPieceItsElementsAndKeepsThePromisesOfItsCollectives) {
    TransferCounts counts;
    for (const std::uint64_t seed : support::seeds(40'000)) {
        Random random(seed);
        Pair pair = draw_pair(random);
        const cost::Machine& machine = machines()[random.below(machines().size())];
        const auto fault = find_fault(random, pair, machine, counts);
        ASSERT_FALSE(fault) << *fault << "\nseed " << seed << ", " << text_of(pair);
    }
    for (const char* kind :
         {"copy", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast",
          "scatter", "reduce", "gather", "resolved", "summed", "local"}) {
        EXPECT_GE(counts[kind], support::draws(100)) << kind;
        RecordProperty(kind, counts[kind]);
    }
}

/// Elements that cross from one node to another; collectives do not.
std::int64_t crossing(Pair& pair, const cost::Machine& machine) {
    const Reshard reshard = ReshardPlanner().plan(pair.from, pair.to, pair.regions, machine);
    if (reshard.through) {
        Pair first{.shape = pair.shape, .regions = {}, .from = pair.from, .to = *reshard.through};
        Pair second{.shape = pair.shape, .regions = {}, .from = *reshard.through, .to = pair.to};
        std::int64_t elements = 0;
        for (Pair* const each : {&first, &second}) {
            std::swap(each->regions, pair.regions);
            elements += crossing(*each, machine);
            std::swap(each->regions, pair.regions);
        }
        return elements;
    }
    std::int64_t elements = 0;
    for (const Transfer& transfer : reshard.transfers) {
        const int node = machine.device(transfer.devices[0]).node;
        const bool crosses = std::ranges::any_of(
            transfer.devices, [&](int d) { return machine.device(d).node != node; });
        EXPECT_FALSE(crosses && transfer.collective);
        if (crosses) elements += transfer.elements;
    }
    return elements;
}

/// The tensor in `groups` shards of rows, each on all of `size` devices of node 0, and the same on
/// node 1; in_slices: on node 0 each has a slice of the shard instead.
Pair between_nodes(const graph::Shape& shape, int groups, int size, bool in_slices) {
    Pair pair{.shape = shape, .regions = {}, .from = {}, .to = {}};
    for (int group = 0; group < groups; ++group) {
        graph::Region rows = graph::whole_region(shape);
        rows.dims[0] = graph::part_of(rows.dims[0], groups, group);
        const auto slices = slices_of(rows, size);
        for (int i = 0; i < size; ++i) {
            const auto& held = in_slices ? slices.at(static_cast<std::size_t>(i)) : rows;
            const int device = group * size + i;
            pair.from.pieces.push_back({device, pair.regions.intern(held)});
            pair.to.pieces.push_back({kDevices / 2 + device, pair.regions.intern(rows)});
        }
    }
    return pair;
}

// As pipelines over nodes have it whose stages share ops, with and without sequence parallelism.
TEST(Reshard, CrossesToAnotherNodeOnce) {
    const cost::Machine machine = machine_of_nodes(2, kDevices / 2);
    Random random(5);
    TransferCounts counts;
    for (const auto& [groups, size] :
         std::vector<std::pair<int, int>>{{1, 2}, {1, 3}, {1, 6}, {2, 2}, {2, 3}, {3, 2}}) {
        for (const graph::Shape& shape :
             {graph::Shape{12, 4, 9}, {12, 1, 2}, {36, 1}, {36}, {12, 2, 3, 2}}) {
            for (const bool in_slices : {false, true}) {
                Pair pair = between_nodes(shape, groups, size, in_slices);
                const auto fault = find_fault(random, pair, machine, counts);
                EXPECT_FALSE(fault) << *fault << "\n" << text_of(pair);
                const std::int64_t all = graph::whole_region(shape).volume();
                EXPECT_EQ(crossing(pair, machine), all) << text_of(pair);
                // A network as quick as the nodes: each device gets its own.
                EXPECT_EQ(crossing(pair, machines()[1]), size * all) << text_of(pair);
            }
        }
    }
    EXPECT_EQ(counts["sliced"], 6 * 5 * (2 + 1));
}

TEST(Reshard, CrossesWholeWhatHasNoEqualSlices) {
    Pair pair = between_nodes({1, 5, 3}, 1, 2, false);
    EXPECT_EQ(crossing(pair, machine_of_nodes(2, 6)), 30);
    EXPECT_TRUE(slices_of(graph::whole_region({1, 5, 3}), 2).empty());
    // Rows of 5 in 2 slices are strided.
    Pair strided = between_nodes({5, 4}, 1, 2, false);
    EXPECT_EQ(crossing(strided, machine_of_nodes(2, 6)), 20);
    Pair nested = between_nodes({2, 3, 4}, 1, 6, false);
    EXPECT_EQ(crossing(nested, machine_of_nodes(2, 6)), 24);
}

TEST(Reshard, ToTheSameLayoutIsFree) {
    for (const std::uint64_t seed : support::seeds(1'000)) {
        Random random(seed);
        Pair pair = draw_pair(random);
        pair.to = pair.from;
        const Reshard reshard = ReshardPlanner().plan(pair.from, pair.to, pair.regions,
                                                      machines()[seed % machines().size()]);
        EXPECT_FALSE(reshard.through);
        EXPECT_TRUE(reshard.transfers.empty()) << "seed " << seed << ", " << text_of(pair);
    }
}

// Whatever is_local() says of two layouts, a reshard moves nothing exactly then, empty pieces
// and sums aside.
TEST(Reshard, MovesNothingExactlyWhereEveryPieceIsLocal) {
    int local = 0;
    for (const std::uint64_t seed : support::seeds(5'000)) {
        Random random(seed);
        Pair pair = draw_pair(random);
        if (!is_local(pair.from, pair.to, pair.regions)) continue;
        ++local;
        const Reshard reshard = ReshardPlanner().plan(pair.from, pair.to, pair.regions,
                                                      machines()[seed % machines().size()]);
        EXPECT_TRUE(!reshard.through && reshard.transfers.empty())
            << "seed " << seed << ", " << text_of(pair);
    }
    EXPECT_GE(local, support::draws(100));
}

}  // namespace
}  // namespace partita::plan
