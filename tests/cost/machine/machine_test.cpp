// SPDX-License-Identifier: Apache-2.0
//
// Routes and copy times.
#include "cost/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "cost/machine/group_links.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

Device device(const std::string& name) {
    Device device;
    device.name = name;
    device.model = "test";
    device.memory = Bytes{1000};
    device.memory_bandwidth = 1000;
    device.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = 1000;
    device.vector_flops = 1000;
    return device;
}

Link link(int from, int to, std::int64_t bandwidth, Time latency,
          LinkMode mode = LinkMode::duplex) {
    Link link;
    link.from = from;
    link.to = to;
    link.bandwidth = bandwidth;
    link.latency = latency;
    link.mode = mode;
    return link;
}

Machine machine(int devices, std::vector<std::string> switches, std::vector<Link> links) {
    std::vector<Device> list;
    for (int i = 0; i < devices; ++i) list.push_back(device("d" + std::to_string(i)));
    return {"test", std::move(list), std::move(switches), std::move(links)};
}

std::vector<std::string> names(const Machine& machine, int from, int to) {
    std::vector<std::string> result;
    for (const std::int32_t id : machine.route(from, to).channels) {
        result.push_back(machine.channels()[static_cast<std::size_t>(id)].name);
    }
    return result;
}

constexpr std::int64_t kMiBPerSecond = 1 << 20;

// The routes of all pairs have n^3 / 3 channels; of 1,024 devices not all are counted.
TEST(GroupLinks, OfLongLinesComeFromSomeOfThePairs) {
    for (const int devices : {128, 1'024}) {
        std::vector<Link> links;
        for (int i = 1; i < devices; ++i) {
            links.push_back(link(i - 1, i, kMiBPerSecond, microseconds(1)));
        }
        const Machine m = machine(devices, {}, std::move(links));
        std::vector<int> all;
        for (int i = 0; i < devices; ++i) all.push_back(i);
        const auto found = m.group_links(all);
        const Round pairs = found->all_pairs(m);
        const double half = devices / 2.0;  // of the devices, on each side of the middle
        const double near = devices < 1'000 ? 0 : 0.02;
        EXPECT_NEAR(static_cast<double>(pairs.flows), half * half, near * half * half);
        EXPECT_NEAR(static_cast<double>(found->worst_shift(m).flows), half, near * half);
        EXPECT_EQ(pairs.latency, microseconds(devices - 1));
    }
}

// d0 ──100 MiB/s, 1 ms── s ──50 MiB/s, 2 ms── d1: 1 + 2 ms, then 100 MiB at 50 MiB/s = 2 s
TEST(Machine, CopyTakesTheLatenciesAndTheSlowestChannel) {
    const Machine m = machine(2, {"s"},
                              {link(0, 2, 100 * kMiBPerSecond, milliseconds(1)),
                               link(2, 1, 50 * kMiBPerSecond, milliseconds(2))});
    EXPECT_EQ(m.copy_time(0, 1, 100 * Bytes(1 << 20)), milliseconds(2003));
    EXPECT_EQ(m.copy_time(0, 1, Bytes{0}), milliseconds(3));
    EXPECT_EQ(m.route(0, 1).bandwidth, 50 * kMiBPerSecond);
    EXPECT_THAT(names(m, 0, 1), testing::ElementsAre("d0>s", "s>d1"));
    EXPECT_THAT(names(m, 1, 0), testing::ElementsAre("d1>s", "s>d0"));
}

// 1 MiB takes 100 ms on the direct link, and 2 x 10 ms through d2.
TEST(Machine, RouteGoesThroughADeviceWhenThatIsCheaper) {
    const Machine m =
        machine(3, {},
                {link(0, 1, 10 * kMiBPerSecond, Time{0}), link(0, 2, 100 * kMiBPerSecond, Time{0}),
                 link(2, 1, 100 * kMiBPerSecond, Time{0})});
    EXPECT_THAT(names(m, 0, 1), testing::ElementsAre("d0>d2", "d2>d1"));
}

// Direct: 20 ms. Through d2: 2 x 10 ms. Equal weights, so fewer hops win.
TEST(Machine, EqualRoutesPreferFewerHops) {
    const Machine m =
        machine(3, {},
                {link(0, 2, 100 * kMiBPerSecond, Time{0}), link(2, 1, 100 * kMiBPerSecond, Time{0}),
                 link(0, 1, 50 * kMiBPerSecond, Time{0})});
    EXPECT_THAT(names(m, 0, 1), testing::ElementsAre("d0>d1"));
}

TEST(Machine, EqualLinksPreferTheSmallerChannel) {
    const Machine m = machine(2, {}, {link(0, 1, 100, Time{1}), link(0, 1, 100, Time{1})});
    EXPECT_THAT(m.route(0, 1).channels, testing::ElementsAre(0));
    EXPECT_THAT(m.route(1, 0).channels, testing::ElementsAre(1));
    EXPECT_EQ(m.links()[0].name, "d0-d1");
    EXPECT_EQ(m.links()[1].name, "d0-d1#2");
    EXPECT_EQ(m.channels()[2].name, "d0>d1 (d0-d1#2)");
}

TEST(Machine, ASharedLinkIsOneChannelForBothDirections) {
    const Machine m = machine(2, {}, {link(0, 1, 100, Time{1}, LinkMode::shared)});
    EXPECT_EQ(m.channels().size(), 1U);
    EXPECT_EQ(m.route(0, 1).channels, m.route(1, 0).channels);
}

TEST(Machine, DirectedLinksMakeARing) {
    const Machine m = machine(
        3, {},
        {link(0, 1, 100, Time{1}, LinkMode::directed), link(1, 2, 100, Time{1}, LinkMode::directed),
         link(2, 0, 100, Time{1}, LinkMode::directed)});
    EXPECT_THAT(names(m, 1, 0), testing::ElementsAre("d1>d2", "d2>d0"));
    EXPECT_THAT(names(m, 0, 1), testing::ElementsAre("d0>d1"));
}

TEST(Machine, EfficiencyLowersTheBandwidthOfCopies) {
    Link half = link(0, 1, 1000, Time{0});
    half.efficiency = 0.5;
    EXPECT_EQ(machine(2, {}, {half}).copy_time(0, 1, Bytes{500}), milliseconds(1000));
}

TEST(Machine, OneDeviceNeedsNoLink) {
    EXPECT_EQ(machine(1, {}, {}).device_count(), 1);
}

TEST(Machine, ConstructorNamesTheFieldOfABadFigure) {
    const auto message = [](const std::function<void(Device&, Link&)>& spoil) {
        Device spoiled = device("d1");
        Link wire = link(0, 1, 100, Time{1});
        spoil(spoiled, wire);
        try {
            const Machine m("test", {device("d0"), spoiled}, {}, {wire});
        } catch (const InputError& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(message([](Device&, Link&) {}), "accepted");
    EXPECT_EQ(message([](Device& d, Link&) { d.memory = Bytes{0}; }),
              "devices[1].memory_bytes: expected bytes > 0, got 0. Correct it.");
    EXPECT_EQ(message([&](Device& d, Link&) { d.memory_efficiency = nan; }),
              "devices[1].memory_efficiency: expected a share in (0, 1], got nan. Correct it.");
    EXPECT_EQ(message([](Device&, Link& l) { l.to = 2; }),
              "links[0].to: expected a device or a switch, got 2. Correct it.");
    EXPECT_EQ(message([](Device&, Link& l) { l.latency = Time{-1}; }),
              "links[0].latency_ps: expected picoseconds from 0 to 1 s, got -1. Correct it.");
}

TEST(Machine, RoutesAreTheSameFromManyThreads) {
    const Machine m = load_machine("k80-cluster");
    const Machine same = load_machine("k80-cluster");
    std::vector<std::vector<Time>> times(4);
    std::vector<std::thread> threads;
    for (auto& list : times) {
        threads.emplace_back([&] {
            for (int to = 1; to < m.device_count(); ++to) {
                list.push_back(m.copy_time(0, to, Bytes{1000}));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (int to = 1; to < m.device_count(); ++to) {
        for (const auto& list : times) {
            EXPECT_EQ(list[static_cast<std::size_t>(to) - 1], same.copy_time(0, to, Bytes{1000}));
        }
    }
}

/// A connected machine of duplex links: a random tree over all vertices, and some more links.
Machine random_duplex_machine() {
    const int devices = *rc::gen::inRange(2, 7);
    const int switches = *rc::gen::inRange(0, 3);
    std::vector<std::string> names;
    for (int i = 0; i < switches; ++i) names.push_back("s" + std::to_string(i));
    std::vector<Link> links;
    const auto random_link = [](int a, int b) {
        return link(a, b, *rc::gen::inRange<std::int64_t>(1'000, 5'000) * 1'000'000,
                    microseconds(*rc::gen::inRange<std::int64_t>(0, 100)));
    };
    for (int v = 1; v < devices + switches; ++v) {
        links.push_back(random_link(*rc::gen::inRange(0, v), v));
    }
    for (int more = *rc::gen::inRange(0, 6); more > 0; --more) {
        const int a = *rc::gen::inRange(1, devices + switches);
        links.push_back(random_link(*rc::gen::inRange(0, a), a));
    }
    return machine(devices, names, links);
}

/// Weight, hops and latency of the cheapest way by trying all simple paths.
using Cost = std::tuple<std::int64_t, int, std::int64_t>;
std::optional<Cost> cheapest(const Machine& m, int at, int to, std::vector<bool>& used) {
    if (at == to) return Cost{0, 0, 0};
    std::optional<Cost> best;
    used[static_cast<std::size_t>(at)] = true;
    for (const Link& each : m.links()) {
        for (const auto& [from, next] : {std::pair{each.from, each.to}, {each.to, each.from}}) {
            if (from != at || used[static_cast<std::size_t>(next)]) continue;
            const auto rest = cheapest(m, next, to, used);
            if (!rest) continue;
            const Time weight = each.latency + transfer_time(Bytes(1 << 20), each.bandwidth);
            const Cost found{std::get<0>(*rest) + weight.raw(), std::get<1>(*rest) + 1,
                             std::get<2>(*rest) + each.latency.raw()};
            if (!best || found < *best) best = found;
        }
    }
    used[static_cast<std::size_t>(at)] = false;
    return best;
}

RC_GTEST_PROP(MachineProperty, RouteIsTheCheapestOfAllPaths, ()) {
    const Machine m = random_duplex_machine();
    for (int a = 0; a < m.device_count(); ++a) {
        for (int b = 0; b < m.device_count(); ++b) {
            if (a == b) continue;
            const Route route = m.route(a, b);
            Time weight;
            for (const std::int32_t id : route.channels) {
                const Channel& channel = m.channels()[static_cast<std::size_t>(id)];
                weight += channel.latency + transfer_time(Bytes(1 << 20), channel.bandwidth);
            }
            std::vector<bool> used(m.devices().size() + m.switches().size());
            const Cost found{weight.raw(), static_cast<int>(route.channels.size()),
                             route.latency.raw()};
            RC_ASSERT(found == *cheapest(m, a, b, used));
        }
    }
}

RC_GTEST_PROP(MachineProperty, LatencyIsSymmetricalOnDuplexMachines, ()) {
    const Machine m = random_duplex_machine();
    for (int a = 0; a < m.device_count(); ++a) {
        for (int b = 0; b < a; ++b) RC_ASSERT(m.route(a, b).latency == m.route(b, a).latency);
    }
}

RC_GTEST_PROP(MachineProperty, CopyTimeIsAtLeastTheLatencyAndRisesWithSize, ()) {
    const Machine m = random_duplex_machine();
    const Bytes small(*rc::gen::inRange<std::int64_t>(0, 1 << 30));
    const Bytes large = small + Bytes(*rc::gen::inRange<std::int64_t>(0, 1 << 30));
    RC_ASSERT(m.copy_time(0, 1, small) >= m.route(0, 1).latency);
    RC_ASSERT(m.copy_time(0, 1, small) <= m.copy_time(0, 1, large));
}

}  // namespace
}  // namespace partita::cost
