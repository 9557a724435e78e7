// SPDX-License-Identifier: Apache-2.0
//
// The classical placers on graphs small enough to place by hand. Nodes are workload nodes (times in
// microseconds), devices are equal GPUs unless the test says otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/hybrid_parallel/expert.h"
#include "search/list_scheduling/batch_split.h"
#include "search/list_scheduling/critical_path.h"
#include "search/list_scheduling/dfs.h"
#include "search/list_scheduling/hash.h"
#include "search/list_scheduling/heft.h"
#include "search/list_scheduling/m_etf.h"
#include "search/list_scheduling/mite.h"
#include "search/list_scheduling/single_device.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using plan::WorkloadBuilder;
using testing::Each;
using testing::ElementsAre;

Placement place(Placement (*placer)(const GroupGraph&), const graph::OpGraph& graph, int devices,
                ProblemOptions options = {}) {
    const cost::Machine machine = plan::switched_machine(devices);
    const Problem problem = plan::make_problem(graph, machine, std::move(options));
    return placer(GroupGraph(problem, make_groups(problem, Grouping::all)));
}

//   a(4) ─▶ b(6) ─▶ d(4)      longest path a b d
//     └───▶ c(5) ───▶┘        copies take 1
graph::OpGraph diamond() {
    return WorkloadBuilder()
        .node("a", 4)
        .node("b", 6, {"a"})
        .node("c", 5, {"a"})
        .node("d", 4, {"b", "c"})
        .build();
}

TEST(CriticalPath, KeepsTheLongestPathOnOneDevice) {
    EXPECT_THAT(place(place_critical_path, diamond(), 2), ElementsAre(0, 0, 1, 0));
}

TEST(CriticalPath, SpillsToTheNextDeviceWithRoom) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 4, {}, 1, Bytes{60}).node("b", 6, {"a"}, 1, Bytes{60}).build();
    ProblemOptions options;
    options.constraints.memory_limit = Bytes{100};
    EXPECT_THAT(place(place_critical_path, graph, 3, options), ElementsAre(0, 1));
}

TEST(BatchSplit, GivesWholePathsToTheDeviceThatFinishesFirst) {
    // First a b d (14), then c on the idle device.
    EXPECT_THAT(place(place_batch_split, diamond(), 2), ElementsAre(0, 0, 1, 0));
    // A second path of 3 + 4 goes to device 1 behind c (5), not behind 14.
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 4)
                                     .node("b", 6, {"a"})
                                     .node("c", 5, {"a"})
                                     .node("d", 4, {"b", "c"})
                                     .node("e", 3)
                                     .node("f", 1, {"e"})
                                     .build();
    EXPECT_THAT(place(place_batch_split, graph, 2), ElementsAre(0, 0, 1, 0, 1, 1));
}

TEST(Dfs, WeighsTrafficAgainstLoad) {
    // Order a b d c. These tensors have no bytes, so traffic is 1 and the load after the group
    // decides:   a 4|4 -> 0   b 10|6 -> 1   d 8|10 -> 0   c 13|11 -> 1
    EXPECT_THAT(place(place_dfs, diamond(), 2), ElementsAre(0, 1, 1, 0));
    // With bytes: all of b's and of c's edges placed so far lead to device 0 (1/2 of their bytes).
    //     b   10 * 1 | 6 * 1.5   -> 1        d   reads b (on 1) and c (unplaced): 8 * 1.5 | 10 * 1
    //     c   (4 + 5) * 1.5 | (10 + 5) * 1.5 -> 0
    graph::OpGraph graph = diamond();
    for (std::uint32_t t = 0; t < 4; ++t) {
        graph.tensor(graph::TensorId(t)).given_bytes = Bytes{100};
    }
    EXPECT_THAT(place(place_dfs, graph, 2), ElementsAre(0, 1, 0, 1));
}

TEST(Heft, UsesAnIdleIntervalThatIsLongEnough) {
    //   ranks: a 4+1+20 = 25, c 20, b 3 (independent)
    //   device 0   a a a a c c c c ...
    // On one device no gap exists, on two b starts at 0 beside a: earliest finish 3 on device 1.
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 4).node("c", 20, {"a"}).node("b", 3).build();
    EXPECT_THAT(place(place_heft, graph, 2), testing::Contains(1).Times(1));
}

TEST(Heft, InsertsBeforeWorkThatIsAlreadyPlaced) {
    //   a(10) is fixed to device 0, z(10, reads a) to device 1, b(4) to device 1 or 2, device 2 is
    //   taken by y(9):
    //
    //     device 0   aaaaaaaaaa
    //     device 1   bbbb       zzzzzzzzzz     copy of a takes 1: z starts at 11
    //     device 2   yyyyyyyyy                 b would end at 13 there, at 25 behind z
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 10).node("z", 10, {"a"}).node("y", 9).node("b", 4).build();
    ProblemOptions options;
    options.constraints.allowed = {{0}, {1}, {2}, {1, 2}};
    const Placement placement = place(place_heft, graph, 3, options);
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine, options);
    const OpGroups groups = make_groups(problem, Grouping::all);
    EXPECT_EQ(placement[static_cast<std::size_t>(groups.of[3])], 1);
}

TEST(MEtf, TakesThePairThatStartsEarliest) {
    // a starts at 0 on device 0. b (higher rank) can start at 4 on 0, at 5 on 1 (copy 1): device 0.
    // c then starts at 5 on device 1, before 10 on device 0; d at 11 on 0 (c's copy), before 14.
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 4)
                                     .node("b", 6, {"a"})
                                     .node("c", 5, {"a"})
                                     .node("d", 4, {"b", "c"})
                                     .build();
    EXPECT_THAT(place(place_m_etf, graph, 2), ElementsAre(0, 0, 1, 0));
}

TEST(MEtf, BreaksTiesByTheSmallerGroupAndDevice) {
    const graph::OpGraph graph = WorkloadBuilder().node("a", 5).node("b", 5).node("c", 5).build();
    EXPECT_THAT(place(place_m_etf, graph, 3), ElementsAre(0, 1, 2));
}

TEST(MEtf, LeavesDevicesThatAreFull) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 4, {}, 1, Bytes{60})
                                     .node("b", 6, {"a"}, 1, Bytes{60})
                                     .node("c", 6, {"b"}, 1, Bytes{60})
                                     .build();
    ProblemOptions options;
    options.constraints.memory_limit = Bytes{100};
    EXPECT_THAT(place(place_m_etf, graph, 3, options), ElementsAre(0, 1, 2));
}

TEST(Expert, CutsBlocksIntoBalancedStretches) {
    // Loads 5 5 | 6 | 4 5 over three devices; any other cut makes a device busier than 10.
    graph::OpGraph graph = WorkloadBuilder()
                               .node("a", 5)
                               .node("b", 5, {"a"})
                               .node("c", 6, {"b"})
                               .node("d", 4, {"c"})
                               .node("e", 5, {"d"})
                               .build();
    EXPECT_THAT(place(place_expert, graph, 3), ElementsAre(0, 0, 1, 1, 2));
    // Blocks {a b} {c d} {e} are not cut.
    for (std::uint32_t i = 0; i < 5; ++i) graph.op(graph::OpId(i)).block = std::to_string(i / 2);
    EXPECT_THAT(place(place_expert, graph, 2), ElementsAre(0, 0, 1, 1, 1));
    EXPECT_THAT(place(place_expert, graph, 3), ElementsAre(0, 0, 1, 1, 2));
}

TEST(Expert, CutsWorkOfSinglePicoseconds) {
    graph::OpGraph graph = WorkloadBuilder().node("a", 0).node("b", 0, {"a"}).build();
    for (std::uint32_t i = 0; i < 2; ++i) {
        graph.op(graph::OpId(i)).given->accelerator_time = Time{1};
    }
    EXPECT_THAT(place(place_expert, graph, 2), ElementsAre(0, 1));
}

TEST(Expert, LeavesSlowDevicesLittleOrNothing) {
    // The CPU is ten times as slow: one node there takes as long as all ten on the GPU.
    WorkloadBuilder build;
    build.node("0", 1);
    for (int i = 1; i < 10; ++i) {
        const std::string before = std::to_string(i - 1);
        build.node(std::to_string(i), 1, {before.c_str()});
    }
    const graph::OpGraph graph = build.build();
    const cost::Machine switched = plan::switched_machine(2);
    std::vector<cost::Device> devices(switched.devices().begin(), switched.devices().end());
    devices[1].kind = cost::DeviceKind::cpu;
    devices[1].model = "host";
    const cost::Machine machine("mixed", devices, {"switch"},
                                {switched.links().begin(), switched.links().end()});
    const Problem problem = plan::make_problem(graph, machine);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    EXPECT_THAT(place_expert(groups), Each(0));
}

TEST(MultiObjective, PrefersTheEmptierOfEqualDevices) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 5, {}, 1, Bytes{100}).node("b", 5, {}, 1, Bytes{100}).build();
    EXPECT_THAT(place(place_multi_objective, graph, 2), ElementsAre(0, 1));
}

TEST(Hash, DependsOnNamesAlone) {
    const graph::OpGraph graph = diamond();
    EXPECT_EQ(place(place_hash, graph, 4), place(place_hash, graph, 4));
    // The same names with other costs and edges.
    const graph::OpGraph other =
        WorkloadBuilder().node("a", 1).node("b", 2).node("c", 3).node("d", 4).build();
    EXPECT_EQ(place(place_hash, graph, 4), place(place_hash, other, 4));
}

TEST(Hash, SpreadsInProportionToMemory) {
    WorkloadBuilder build;
    for (int i = 0; i < 2000; ++i) build.node("op" + std::to_string(i), 1);
    const graph::OpGraph graph = build.build();
    const Placement placement = place(place_hash, graph, 4);
    for (int d = 0; d < 4; ++d) {
        EXPECT_NEAR(static_cast<double>(std::count(placement.begin(), placement.end(), d)), 500.0,
                    100.0);
    }
}

TEST(SingleDevice, TriesFastDevicesFirstAndEqualOnesOnce) {
    const graph::OpGraph graph = diamond();
    const cost::Machine switched = plan::switched_machine(3);
    std::vector<cost::Device> devices(switched.devices().begin(), switched.devices().end());
    devices[0].kind = cost::DeviceKind::cpu;
    devices[0].model = "host";
    const cost::Machine machine("mixed", devices, {"switch"},
                                {switched.links().begin(), switched.links().end()});
    const Problem problem = plan::make_problem(graph, machine);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    EXPECT_THAT(single_device_candidates(groups), ElementsAre(1, 0));
    EXPECT_THAT(place_on(groups, 1), Each(1));
}

}  // namespace
}  // namespace partita::search
