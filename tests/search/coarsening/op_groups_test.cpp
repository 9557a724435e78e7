// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/op_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search/coarsening/group_graph.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::Problem;
using plan::ProblemOptions;
using testing::HasSubstr;
using testing::IsEmpty;

/// "x w1 mul1 relu | w2 mul2 y"
std::string text_of(const Problem& problem, const OpGroups& groups) {
    std::string text;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        if (g > 0) text += " | ";
        for (std::size_t i = 0; i < groups.members[g].size(); ++i) {
            text += (i > 0 ? " " : "") + problem.graph().op(groups.members[g][i]).name;
        }
    }
    return text;
}

class TwoLayers : public testing::Test {
protected:
    std::string groups(ProblemOptions options = {}, Grouping grouping = Grouping::all) {
        const Problem problem = plan::make_problem(graph_, machine_, std::move(options));
        const OpGroups groups = make_groups(problem, grouping);
        conflict_ = groups.conflict;
        return text_of(problem, groups);
    }

    graph::OpGraph graph_ = plan::two_layers();
    cost::Machine machine_ = plan::switched_machine(2);
    std::string conflict_;
};

TEST_F(TwoLayers, SourcesOutputsAndCheapOpsMoveWithTheirNeighbours) {
    EXPECT_EQ(groups(), "x w1 mul1 relu | w2 mul2 y");
}

// Between the scores and the loss, which reads both: apart from them it would close a circle.
TEST_F(TwoLayers, WhatALossAddsMovesWithItsOutput) {
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.policy.loss = plan::LossKind::cross_entropy;
    EXPECT_THAT(groups(options), HasSubstr("mul2 y/log_sum_exp y"));
    const Problem problem = plan::make_problem(graph_, machine_, options);
    const GroupGraph graph(problem, make_groups(problem, Grouping::all));
    for (std::size_t g = 0; g < graph.size(); ++g) {
        for (const GroupEdge& edge : graph.outgoing(g)) {
            EXPECT_GT(static_cast<std::size_t>(edge.group), g);
        }
    }
}

TEST_F(TwoLayers, GroupingOffLeavesEveryOpAlone) {
    EXPECT_EQ(groups({}, Grouping::required_only), "x | w1 | mul1 | relu | w2 | mul2 | y");
}

TEST_F(TwoLayers, RequiredGroupsStayWhenGroupingIsOff) {
    ProblemOptions options;
    options.constraints.together = {{OpId(5U), OpId(2U)}};
    // relu lies between mul1 and mul2 in both directions: no order exists, and none is needed.
    EXPECT_EQ(groups(std::move(options), Grouping::required_only),
              "x | w1 | w2 | mul1 mul2 | relu | y");
}

TEST_F(TwoLayers, OpsFixedToDifferentDevicesStayApart) {
    ProblemOptions options;
    options.constraints.allowed = {{}, {}, {0}, {1}};
    EXPECT_EQ(groups(std::move(options)), "x w1 mul1 | relu w2 mul2 y");
}

TEST_F(TwoLayers, AGroupMayUseWhatAllItsOpsMayUse) {
    ProblemOptions options;
    options.constraints.allowed = {{}, {}, {0, 1}, {1}};
    const Problem problem = plan::make_problem(graph_, machine_, options);
    const OpGroups groups = make_groups(problem, Grouping::all);
    EXPECT_EQ(groups.devices(0), std::vector<int>{1});
    EXPECT_EQ(groups.devices(1), (std::vector<int>{0, 1}));
}

TEST_F(TwoLayers, WhatFitsNoDeviceIsNotJoined) {
    ProblemOptions options;
    // x, w1 and w2 keep 512, 1,024 and 256 bytes.
    options.constraints.memory_limit = Bytes{1024};
    EXPECT_EQ(groups(std::move(options)), "w1 | x mul1 relu | w2 mul2 y");
}

TEST_F(TwoLayers, ContradictingConstraintsAreNamed) {
    ProblemOptions options;
    options.constraints.allowed = {{}, {}, {0}, {1}};
    options.constraints.together = {{OpId(2U), OpId(3U)}};
    groups(std::move(options));
    EXPECT_EQ(conflict_,
              "ops 'mul1' and 'relu' must share a device, but no device is allowed to both. Fix "
              "them to a common device, or take one of them out of 'together'.");
}

TEST(OpGroups, AChainStaysDivisibleLayerByLayer) {
    const graph::OpGraph graph = support::chain_network(40);  // 20 MatMul, 20 Relu
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(graph, machine);
    EXPECT_EQ(make_groups(problem, Grouping::all).size(), 20U);
}

TEST(OpGroups, WorkloadNodesAreNeverCheap) {
    const graph::OpGraph graph =
        plan::WorkloadBuilder().node("a", 1).node("b", 1, {"a"}).node("c", 1, {"b"}).build();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(graph, machine);
    EXPECT_EQ(make_groups(problem, Grouping::all).size(), 3U);
}

TEST(OpGroups, NoOpsMakeNoGroups) {
    const graph::OpGraph graph;
    const cost::Machine machine = plan::switched_machine(1);
    const Problem problem = plan::make_problem(graph, machine);
    EXPECT_EQ(make_groups(problem, Grouping::all).size(), 0U);
}

TEST(GroupGraph, EdgesRiseAndEveryOpHasOneGroup) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 30);
        const cost::Machine machine = plan::switched_machine(3);
        ProblemOptions options;
        const auto ops = static_cast<std::uint64_t>(graph.op_count());
        for (int i = 0; i < 3; ++i) {
            options.constraints.together.push_back(
                {OpId(random.below(ops)), OpId(random.below(ops)), OpId(random.below(ops))});
        }
        const Problem problem = plan::make_problem(graph, machine, options);
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        std::size_t members = 0;
        Time total;
        for (std::size_t g = 0; g < groups.size(); ++g) {
            members += groups.groups().members[g].size();
            total += groups.time(g, 0);
            for (const GroupEdge& edge : groups.outgoing(g)) {
                ASSERT_GT(static_cast<std::size_t>(edge.group), g);
                ASSERT_GE(groups.rank(g), groups.rank(static_cast<std::size_t>(edge.group)));
            }
        }
        ASSERT_EQ(members, graph.op_count());
        ASSERT_EQ(total, groups.total_time(0));
    }
}

TEST(GroupGraph, ATensorCountsOncePerGroupThatReadsIt) {
    //   a ──▶ b, c    b and c must share a device: one edge, one copy
    const graph::OpGraph graph = plan::WorkloadBuilder()
                                     .node("a", 5, {}, /*copy=*/7)
                                     .node("b", 5, {"a"})
                                     .node("c", 5, {"a"})
                                     .build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.constraints.together = {{OpId(1U), OpId(2U)}};
    const Problem problem = plan::make_problem(graph, machine, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    ASSERT_EQ(groups.outgoing(0).size(), 1U);
    EXPECT_EQ(groups.copy_time(groups.outgoing(0)[0], 0, 1), microseconds(7));
    EXPECT_EQ(groups.copy_time(groups.outgoing(0)[0], 1, 1), Time{0});
    EXPECT_EQ(groups.time(1, 0), microseconds(10));
    EXPECT_EQ(groups.rank(0), microseconds(5 + 7 + 10));
    EXPECT_EQ(groups.path_to_sink(0), microseconds(5 + 10));
}

TEST(GroupGraph, TrainingCountsGradientsAndWhatIsSaved) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    const Problem problem = plan::make_problem(graph, machine, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    // x w1 mul1 relu: x 512 bytes, w1 and its gradient 2 * 1024, and what relu's backward reads.
    EXPECT_GE(groups.bytes(0), Bytes{512 + 2048 + 512});
    ASSERT_EQ(groups.outgoing(0).size(), 1U);
    const GroupEdge& edge = groups.outgoing(0)[0];
    EXPECT_EQ(edge.bytes, Bytes{2 * 512});  // relu's result there, its gradient back
    EXPECT_EQ(groups.copy_time(edge, 0, 1), 2 * problem.transfers().copy_time(edge.tensor, 0, 1));
}

}  // namespace
}  // namespace partita::search
