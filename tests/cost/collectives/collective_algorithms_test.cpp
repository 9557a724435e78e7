// SPDX-License-Identifier: Apache-2.0
//
// REFERENCES.md 2, row by row, on devices around one switch. Each device has one link: what it
// sends to several at once shares that link, as the table assumes.
//
//     d0   d1   d2   d3      alpha = 500 ns to the switch + 500 ns from it
//       \   \   /   /        beta  = 1 ps per byte
//           switch
#include "cost/collectives/collective_algorithms.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cost/machine/group_links.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

using enum Collective;

constexpr std::int64_t kBytesPerSecond = 1'000'000'000'000;  // 1 byte per ps
constexpr Time kAlpha = microseconds(1);

Device device(std::string name, int node = 0) {
    Device gpu{.name = std::move(name), .model = "test", .node = node, .memory = Bytes{1 << 30}};
    gpu.memory_bandwidth = kBytesPerSecond;
    gpu.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = 1;
    gpu.vector_flops = 1;
    return gpu;
}

Machine around_a_switch(int devices, bool reduces = true, LinkMode mode = LinkMode::duplex) {
    std::vector<Device> gpus;
    std::vector<Link> links;
    for (int i = 0; i < devices; ++i) {
        gpus.push_back(device("d" + std::to_string(i)));
        links.push_back({.from = i,
                         .to = devices,
                         .bandwidth = kBytesPerSecond,
                         .latency = nanoseconds(500),
                         .mode = mode});
    }
    MachineCollectives collectives;
    if (reduces) collectives.reducing_switches = {0};
    return {"star", std::move(gpus), {"switch"}, std::move(links), std::move(collectives)};
}

std::vector<int> first(int count) {
    std::vector<int> devices(static_cast<std::size_t>(count));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
}

/// Null when the algorithm cannot do this collective there.
std::optional<Time> algorithm_time(Algorithm algorithm, const CollectiveCall& call,
                                   const Machine& machine) {
    const auto rows = collective_algorithms();
    const auto row = std::ranges::find(rows, algorithm, &AlgorithmRow::algorithm);
    if (row == rows.end() || !row->collectives.holds(call.kind)) return std::nullopt;
    const auto links = machine.group_links(call.devices);
    return row->time({call.kind, call.bytes, *links, machine});
}

std::optional<Time> time_of(Algorithm algorithm, Collective kind, int ranks, std::int64_t bytes,
                            bool reduces = true) {
    const auto devices = first(ranks);
    return algorithm_time(algorithm, {kind, devices, Bytes{bytes}},
                          around_a_switch(ranks, reduces));
}

/// alpha x rounds + beta x amount.
Time alpha_beta(std::int64_t rounds, std::int64_t amount) {
    return rounds * kAlpha + picoseconds(amount);
}

struct TableRow {
    Algorithm algorithm;
    std::int64_t (*amount)(std::int64_t p, std::int64_t d, std::int64_t log2p);
    std::int64_t (*rounds)(std::int64_t p, std::int64_t log2p);
};
const std::array kTable = {
    TableRow{Algorithm::parameter_server, [](auto p, auto d, auto) { return 2 * p * d; },
             [](auto, auto) { return std::int64_t{2}; }},
    TableRow{Algorithm::ring, [](auto p, auto d, auto) { return 2 * (p - 1) * d / p; },
             [](auto p, auto) { return 2 * (p - 1); }},
    TableRow{Algorithm::one_shot, [](auto p, auto d, auto) { return 2 * (p - 1) * d / p; },
             [](auto, auto) { return std::int64_t{2}; }},
    TableRow{Algorithm::all_to_all, [](auto p, auto d, auto) { return (p - 1) * d; },
             [](auto, auto) { return std::int64_t{1}; }},
    TableRow{Algorithm::master_worker, [](auto p, auto d, auto) { return 2 * (p - 1) * d; },
             [](auto, auto) { return std::int64_t{2}; }},
    TableRow{Algorithm::tree, [](auto, auto d, auto log2p) { return 2 * d * log2p; },
             [](auto, auto log2p) { return 2 * log2p; }},
    TableRow{Algorithm::butterfly, [](auto, auto d, auto log2p) { return d * log2p; },
             [](auto, auto log2p) { return log2p; }},
    TableRow{Algorithm::halving_doubling, [](auto p, auto d, auto) { return 2 * (p - 1) * d / p; },
             [](auto, auto log2p) { return 2 * log2p; }},
    TableRow{Algorithm::round_robin, [](auto p, auto d, auto) { return (p - 1) * d; },
             [](auto p, auto) { return p - 1; }},
};

TEST(CollectiveAlgorithms, AllReduceHasThePublishedAmountsAndRounds) {
    constexpr std::int64_t kBytes = 3 * 32 * 1024;
    for (const TableRow& row : kTable) {
        for (std::int64_t log2p = 1; log2p <= 5; ++log2p) {
            const std::int64_t p = std::int64_t{1} << log2p;
            EXPECT_EQ(time_of(row.algorithm, all_reduce, static_cast<int>(p), kBytes),
                      alpha_beta(row.rounds(p, log2p), row.amount(p, kBytes, log2p)))
                << name_of(row.algorithm) << " on " << p;
        }
    }
}

TEST(CollectiveAlgorithms, RingAndRoundRobinHoldForAnyNumberOfRanks) {
    EXPECT_EQ(time_of(Algorithm::ring, all_reduce, 6, 600), alpha_beta(10, 2 * 5 * 100));
    EXPECT_EQ(time_of(Algorithm::ring, all_gather, 6, 600), alpha_beta(5, 5 * 100));
    EXPECT_EQ(time_of(Algorithm::ring, reduce_scatter, 6, 600), alpha_beta(5, 5 * 100));
    EXPECT_EQ(time_of(Algorithm::round_robin, all_reduce, 6, 600), alpha_beta(5, 5 * 600));
}

TEST(CollectiveAlgorithms, APipelinedTreeTakesTheBestNumberOfChunks) {
    // 8 ranks, log2 = 3: 2 (3 + k) (alpha + d/(2k) beta). With d = 8 MiB and alpha = 2^20 bytes'
    // time the best k of 1, 2, 4, 8 is 4: 2 x 7 x (1 us + 1.048576 us); 2 gives 2 x 5 x 3.1 us.
    constexpr std::int64_t kBytes = 8 << 20;
    EXPECT_EQ(time_of(Algorithm::pipelined_tree, all_reduce, 8, kBytes),
              14 * (kAlpha + picoseconds(kBytes / 8)));
}

TEST(CollectiveAlgorithms, OneRootSendsOrReceivesEverythingAtLeastOnce) {
    for (const AlgorithmRow& row : collective_algorithms()) {
        for (const Collective kind : {broadcast, reduce}) {
            if (!row.collectives.holds(kind)) continue;
            const auto time = time_of(row.algorithm, kind, 8, 1 << 20);
            ASSERT_TRUE(time) << name_of(row.algorithm);
            EXPECT_GE(*time, kAlpha + picoseconds(1 << 20)) << name_of(row.algorithm);
        }
    }
}

TEST(CollectiveAlgorithms, GatherByTreeMovesAllOtherPartsIntoTheRoot) {
    // 6 ranks, parts of 100: rounds of 100, 200, and the 2 parts that are left.
    EXPECT_EQ(time_of(Algorithm::tree, gather, 6, 600), alpha_beta(3, 100 + 200 + 200));
    EXPECT_EQ(time_of(Algorithm::tree, scatter, 6, 600), alpha_beta(3, 100 + 200 + 200));
    EXPECT_EQ(time_of(Algorithm::direct, gather, 6, 600), alpha_beta(1, 5 * 100));
}

TEST(CollectiveAlgorithms, AllToAllByButterflySendsEveryPartOncePerBitOfItsWay) {
    // 8 ranks, parts of 100: 4 of the 8 ways have bit k. On 6 ranks: bit 0 in 1 3 5, bit 1 in 2 3,
    // bit 2 in 4 5.
    EXPECT_EQ(time_of(Algorithm::butterfly, all_to_all, 8, 800), alpha_beta(3, 3 * 400));
    EXPECT_EQ(time_of(Algorithm::butterfly, all_to_all, 6, 600), alpha_beta(3, 300 + 200 + 200));
    EXPECT_EQ(time_of(Algorithm::direct, all_to_all, 6, 600), alpha_beta(1, 5 * 100));
}

TEST(CollectiveAlgorithms, ButterfliesFoldRanksBeyondThePowerOfTwo) {
    // 6 = 4 + 2: one round before, two butterfly rounds, one round after.
    EXPECT_EQ(time_of(Algorithm::butterfly, all_reduce, 6, 400), alpha_beta(4, 4 * 400));
    EXPECT_EQ(time_of(Algorithm::halving_doubling, all_reduce, 6, 400),
              alpha_beta(2 + 4, 2 * 400 + 2 * 300));
}

TEST(CollectiveAlgorithms, OnlyAReducingSwitchOffersOneShot) {
    EXPECT_EQ(time_of(Algorithm::one_shot, all_reduce, 4, 400, /*reduces=*/false), std::nullopt);
    EXPECT_NE(time_of(Algorithm::one_shot, all_reduce, 4, 400, /*reduces=*/true), std::nullopt);
}

TEST(CollectiveAlgorithms, ReduceScatterThenAllGatherIsARingAllReduce) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
        const auto half = time_of(Algorithm::ring, reduce_scatter, ranks, 12'345);
        const auto other = time_of(Algorithm::ring, all_gather, ranks, 12'345);
        EXPECT_EQ(*half + *other, *time_of(Algorithm::ring, all_reduce, ranks, 12'345));
    }
}

TEST(CollectiveAlgorithms, FlowsOnOneBusShareIt) {
    // d0..d3 on buses to the switch: out and back are one channel, so two flows share each.
    const Machine machine = around_a_switch(4, false, LinkMode::shared);
    const auto devices = first(4);
    EXPECT_EQ(algorithm_time(Algorithm::ring, {all_gather, devices, Bytes{400}}, machine),
              alpha_beta(3, 2 * 300));
}

/// node0: d0 d1 - switch0 - network - switch1 - d2 d3, 1 us to everyone inside, 3 us outside;
/// uplinks of half a byte per ps.
Machine two_nodes() {
    std::vector<Device> gpus{device("d0", 0), device("d1", 0), device("d2", 1), device("d3", 1)};
    std::vector<Link> links;
    for (int i = 0; i < 4; ++i) {
        links.push_back({.from = i,
                         .to = 4 + i / 2,
                         .bandwidth = kBytesPerSecond,
                         .latency = nanoseconds(500)});
    }
    for (int i = 4; i < 6; ++i) {
        links.push_back(
            {.from = i, .to = 6, .bandwidth = kBytesPerSecond / 2, .latency = microseconds(1)});
    }
    return {"two", std::move(gpus), {"switch0", "switch1", "network"}, std::move(links)};
}

TEST(CollectiveAlgorithms, HierarchicalUsesTheUplinkOnceForEachColumn) {
    const auto devices = first(4);
    const CollectiveCall call{all_reduce, devices, Bytes{400}};
    // Inside: 1 round of 200. Between: two columns share the uplink, 1 round of 100 at 4 ps a byte.
    const Time one_way =
        (microseconds(1) + picoseconds(200)) + (microseconds(3) + picoseconds(400));
    EXPECT_EQ(algorithm_time(Algorithm::hierarchical, call, two_nodes()), 2 * one_way);
    // The flat ring's slowest hop crosses: 6 rounds of 100 at 2 ps a byte.
    EXPECT_EQ(algorithm_time(Algorithm::ring, call, two_nodes()),
              6 * (microseconds(3) + picoseconds(200)));
}

TEST(CollectiveAlgorithms, HierarchicalNeedsSeveralRanksInSeveralNodes) {
    const std::vector<int> apart{0, 2};
    const std::vector<int> together{0, 1};
    const std::vector<int> uneven{0, 1, 2};
    for (const auto& devices : {apart, together, uneven}) {
        EXPECT_EQ(
            algorithm_time(Algorithm::hierarchical, {all_reduce, devices, Bytes{400}}, two_nodes()),
            std::nullopt);
    }
}

/// Devices in a grid, a link between neighbours, and where an axis is longer than 2 and `closed` between its ends.
Machine torus(const std::vector<int>& extents, bool closed) {
    int count = 1;
    for (const int extent : extents) count *= extent;
    std::vector<Device> gpus;
    for (int i = 0; i < count; ++i) gpus.push_back(device("d" + std::to_string(i)));
    std::vector<Link> links;
    int stride = count;
    for (const int extent : extents) {
        stride /= extent;
        for (int i = 0; i < count; ++i) {
            const int at = i / stride % extent;
            const bool last = at + 1 == extent;
            if (last && !(closed && extent > 2)) continue;
            links.push_back({.from = i,
                             .to = last ? i - at * stride : i + stride,
                             .bandwidth = kBytesPerSecond,
                             .latency = kAlpha});
        }
    }
    MachineCollectives collectives;
    collectives.torus = extents;
    return {"torus", std::move(gpus), {}, std::move(links), std::move(collectives)};
}

std::optional<Time> torus_time(const Machine& machine, const std::vector<int>& devices,
                               Collective kind, std::int64_t bytes) {
    return algorithm_time(Algorithm::torus, {kind, devices, Bytes{bytes}}, machine);
}

// One axis of 8, closed: 7 parts of 1/8, both ways at once, 4 hops.
TEST(CollectiveAlgorithms, TorusGathersBothWaysRoundARing) {
    const Machine ring = torus({8}, true);
    EXPECT_EQ(torus_time(ring, first(8), all_gather, 8000), 4 * kAlpha + picoseconds(7000 / 2));
    EXPECT_EQ(torus_time(ring, first(8), reduce_scatter, 8000), 4 * kAlpha + picoseconds(7000 / 2));
    EXPECT_EQ(torus_time(ring, first(8), all_reduce, 8000), 8 * kAlpha + picoseconds(7000));
    // Of a line, or a part of a ring, the ends have one link.
    const Machine line = torus({8}, false);
    EXPECT_EQ(torus_time(line, first(8), all_gather, 8000), 7 * kAlpha + picoseconds(7000));
    EXPECT_EQ(torus_time(ring, first(4), all_gather, 8000), 3 * kAlpha + picoseconds(6000));
    EXPECT_EQ(torus_time(ring, {0, 2, 4, 6}, all_gather, 8000), std::nullopt);
    EXPECT_EQ(torus_time(ring, first(8), all_to_all, 8000), std::nullopt);
}

// 4 x 4, closed: half of the vector along one axis, half along the other, then the other way round: 15 of 16
// parts come by four links.
TEST(CollectiveAlgorithms, TorusUsesAllAxesAtOnce) {
    const Machine square = torus({4, 4}, true);
    EXPECT_EQ(torus_time(square, first(16), all_gather, 32'000),
              4 * kAlpha + picoseconds(15 * 2000 / 4));
    // A column: one axis. A row of two columns: 4 x 2, the second axis is a line of two.
    EXPECT_EQ(torus_time(square, {1, 5, 9, 13}, all_gather, 8000),
              2 * kAlpha + picoseconds(3 * 2000 / 2));
    const std::vector<int> columns{0, 1, 4, 5, 8, 9, 12, 13};
    // Pieces of 1000: 3 round the long axis beside 1 on the short one, then 2 x 3 beside 4 x 1.
    EXPECT_EQ(
        torus_time(square, columns, all_gather, 16'000),
        (2 * kAlpha + picoseconds(3 * 1000 / 2)) + (2 * kAlpha + picoseconds(2 * 3 * 1000 / 2)));
    EXPECT_EQ(torus_time(square, {0, 1, 4}, all_gather, 8000), std::nullopt);
}

// Shards of 8.4 MB gathered by four chips in a row of TPU v5e 4 x 4, which is no ring: 560 us by the
// links alone, 680 us measured (Austin et al., How to Scale Your Model, 2025, part 3).
TEST(CollectiveAlgorithms, TorusIsWithinAFifthOfAMeasuredGather) {
    const auto time =
        torus_time(load_machine("tpu-v5e:4x4"), {0, 1, 2, 3}, all_gather, std::int64_t{1} << 25U);
    ASSERT_TRUE(time);
    EXPECT_NEAR(static_cast<double>(time->raw()), 680e6, 0.2 * 680e6);
}

// With closed axes as long as each other no device could get more bytes by its links.
TEST(CollectiveAlgorithms, TorusIsNoQuickerThanTheLinksOfADevice) {
    for (const auto& extents :
         std::vector<std::vector<int>>{{6}, {4, 4}, {3, 5}, {2, 4, 4}, {4, 4, 4}}) {
        for (const bool closed : {false, true}) {
            const Machine machine = torus(extents, closed);
            const int n = machine.device_count();
            std::int64_t links = 0;  // of device 0
            for (const int extent : extents) links += closed && extent > 2 ? 2 : 1;
            const std::int64_t bytes = 96'000 * n;
            const auto time = torus_time(machine, first(n), all_gather, bytes);
            ASSERT_TRUE(time);
            EXPECT_GE(*time, picoseconds((n - 1) * (bytes / n) / links));
        }
    }
}

TEST(AlphaBeta, TakesTheCheapestAlgorithm) {
    const Machine machine = around_a_switch(8, /*reduces=*/false);
    const auto devices = first(8);
    for (const std::int64_t bytes :
         {std::int64_t{8}, std::int64_t{1} << 20, std::int64_t{1} << 30}) {
        for (const Collective kind : {all_reduce, all_gather, reduce_scatter, all_to_all, broadcast,
                                      reduce, scatter, gather}) {
            const CollectiveCall call{kind, devices, Bytes{bytes}};
            Time best = Time::max();
            for (const AlgorithmRow& row : collective_algorithms()) {
                const auto time = algorithm_time(row.algorithm, call, machine);
                if (time) best = std::min(best, *time);
            }
            const auto price = AlphaBeta().price(call, machine);
            ASSERT_TRUE(price);
            EXPECT_EQ(price->time, best);
            EXPECT_EQ(algorithm_time(price->algorithm, call, machine), best);
        }
    }
    EXPECT_EQ(AlphaBeta().price({all_reduce, devices, Bytes{8}}, machine)->algorithm,
              Algorithm::all_to_all);
    EXPECT_EQ(AlphaBeta().price({all_reduce, devices, Bytes{1 << 30}}, machine)->algorithm,
              Algorithm::halving_doubling);
}

TEST(AlphaBeta, OneRankIsFree) {
    const auto devices = first(1);
    for (int kind = 0; kind < kCollectiveCount; ++kind) {
        const CollectiveCall call{static_cast<Collective>(kind), devices, Bytes{1 << 20}};
        EXPECT_EQ(AlphaBeta().price(call, two_nodes())->time, Time{0});
    }
}

RC_GTEST_PROP(AlphaBeta, PricesNeverFallWhenBytesGrow, ()) {
    static const Machine kMachine = load_machine("dgx-a100:2");
    const auto ranks = *rc::gen::inRange(2, 17);
    const auto devices = first(ranks);
    const auto kind = static_cast<Collective>(*rc::gen::inRange(0, kCollectiveCount));
    const auto small = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 32);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 4096);
    const auto price = AlphaBeta().price({kind, devices, Bytes{small}}, kMachine);
    const auto larger = AlphaBeta().price({kind, devices, Bytes{small + more}}, kMachine);
    RC_ASSERT(price->time <= larger->time);
}

TEST(GroupLinks, AreKeptForTheOrderOfTheDevices) {
    const Machine machine = two_nodes();
    const std::vector<int> near{0, 1, 2, 3};
    const std::vector<int> far{0, 2, 1, 3};
    EXPECT_EQ(machine.group_links(near), machine.group_links(first(4)));
    EXPECT_NE(machine.group_links(near), machine.group_links(far));
    // 0 > 2 > 1 > 3 > 0: two flows each way between the nodes.
    EXPECT_EQ(machine.group_links(near)->ring.flows, 1);
    EXPECT_EQ(machine.group_links(far)->ring.flows, 2);
}

}  // namespace
}  // namespace partita::cost
