// SPDX-License-Identifier: Apache-2.0
//
// What every move owes, and what each is for.
#include "search/mcmc/moves/move.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "search/configs/layout_propagation.h"
#include "search/configs/parameter_sharding.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/hybrid_parallel/expert.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"
#include "tests/search/mcmc/moves/move_cases.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using graph::SoapClass;
using plan::Axis;
using plan::DeviceSet;
using plan::OpConfig;
using plan::Problem;
using plan::ProblemOptions;
using plan::Strategy;

std::optional<Proposal> propose_from(Case& of, const Move& move, const Strategy& strategy,
                                     Random& random) {
    const State state(of.space.table(), strategy);
    ProposalBuilder builder(of.space);
    Proposal proposal;
    if (!propose(move, state, random, builder, proposal)) return std::nullopt;
    return proposal;
}

Strategy applied(Case& of, Strategy strategy, const Changes& changes) {
    apply(changes, of.space.table(), strategy);
    return strategy;
}

class EveryMove : public testing::TestWithParam<std::string_view> {
protected:
    static const Move& move() { return *find_move(GetParam()); }
};

TEST_P(EveryMove, KeepsStrategiesLegalAndChangesThem) {
    int proposals = 0;
    for (const auto& of : cases()) {
        for (Strategy state : starts(*of)) {
            Random random(7);
            for (int i = 0; i < 150; ++i) {
                const auto proposal = propose_from(*of, move(), state, random);
                if (!proposal) continue;
                ++proposals;
                EXPECT_TRUE(std::isfinite(proposal->log_ratio));
                EXPECT_FALSE(proposal->changes.empty());
                for (const auto& [op, decision] : proposal->changes.ops) {
                    EXPECT_NE(of->space.table().decision(op, decision), state.ops[op.index()]);
                }
                Strategy next = applied(*of, state, proposal->changes);
                Strategy unscheduled = next;
                unscheduled.policy.schedule = {};
                EXPECT_EQ(find_fault(of->problem, unscheduled), std::nullopt);
                if (i % 2 == 0) state = std::move(next);  // wander
            }
        }
    }
    EXPECT_GT(proposals, 20);
}

TEST_P(EveryMove, ProposesTheSameForASeed) {
    for (const auto& of : cases()) {
        const Strategy state = of->data_parallel();
        const auto texts = [&](SearchSpace& space) {
            Random random(11);
            const State interned(space.table(), state);
            ProposalBuilder builder(space);
            Proposal proposal;
            std::string text;
            for (int i = 0; i < 40; ++i) {
                if (!propose(move(), interned, random, builder, proposal)) continue;
                for (const auto& [op, id] : proposal.changes.ops) {
                    const OpConfig config = space.table().config(op, id.config);
                    text += std::to_string(op.index()) + ":";
                    for (const Axis& axis : config.axes) {
                        text += name_of(of->problem.facts().rule(op), axis) +
                                std::to_string(axis.degree);
                    }
                    text += "@" + std::to_string(config.devices[0]) + " ";
                }
            }
            return text;
        };
        SearchSpace fresh(of->groups);
        EXPECT_EQ(texts(of->space), texts(fresh));
    }
}

std::vector<std::string_view> names() {
    std::vector<std::string_view> names;
    for (const Move& move : move_table()) names.push_back(move.name);
    return names;
}

std::string test_name(const testing::TestParamInfo<std::string_view>& move) {
    std::string name(move.param);
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Moves, EveryMove, testing::ValuesIn(names()), test_name);

/// x [8 16] -> MatMul w -> y on four devices.
graph::OpGraph one_product() {
    plan::NetworkBuilder build;
    const auto x = build.source("x", graph::TensorRole::input, {8, 16});
    build.add("MatMul", {x, build.weight({16, 16})}, {{8, 16}});
    build.add_outputs();
    return std::move(build.graph);
}

/// How often a chain that only follows the ratio is at each config of the one op.
std::map<std::string, int> visits(Case& of, const Move& move, int steps) {
    Random random(5);
    Strategy state = of.data_parallel();
    const OpId op = of.space.computing().at(0);
    std::map<std::string, int> visits;
    for (int i = 0; i < steps; ++i) {
        const auto proposal = propose_from(of, move, state, random);
        if (proposal && std::log(1 - random.uniform()) <= proposal->log_ratio) {
            state = applied(of, std::move(state), proposal->changes);
        }
        std::string text;
        for (const Axis& axis : state.config(op).axes) {
            text += name_of(of.problem.facts().rule(op), axis) + std::to_string(axis.degree) + " ";
        }
        const DeviceSet& devices = state.config(op).devices;
        ++visits[text + "@" + std::to_string(devices[0]) + "+" + std::to_string(devices.stride())];
    }
    return visits;
}

// Without the ratio configs with one axis would be visited more often than those with two.
TEST(Moves, ChangeOfDegreesVisitsAllSplitsEvenly) {
    Case of(one_product(), plan::switched_machine(4), training());
    constexpr int kSteps = 60'000;
    const auto seen = visits(of, *find_move("change-degrees"), kSteps);
    ASSERT_EQ(seen.size(), of.space.table().degrees(of.space.computing()[0], 4).size());
    for (const auto& [config, count] : seen) {
        EXPECT_NEAR(count * static_cast<double>(seen.size()), kSteps, kSteps / 8.0) << config;
    }
}

TEST(Moves, ChangeOfDevicesVisitsAllSplitsOfASetEvenly) {
    Case of(one_product(), plan::switched_machine(4), training());
    constexpr int kSteps = 200'000;
    const auto seen = visits(of, *find_move("change-devices"), kSteps);
    ConfigTable& table = of.space.table();
    const OpId op = of.space.computing()[0];
    std::size_t configs = 0;
    for (const int size : table.sizes(op)) {
        configs += table.degrees(op, size).size() * table.device_sets(op, size).size();
    }
    ASSERT_EQ(seen.size(), configs);
    for (const auto& [config, count] : seen) {
        EXPECT_NEAR(count * static_cast<double>(configs), kSteps, kSteps / 4.0) << config;
    }
}

TEST(Moves, SymmetricOnesLeadBack) {
    for (const char* name : {"swap-devices", "change-sharding", "change-micro-batches"}) {
        ProblemOptions options = training(2);
        options.constraints.most_micro_batches = 4;
        options.constraints.free_schedule = true;
        Case of(support::chain_network(6), plan::switched_machine(4), options);
        Strategy start = of.data_parallel();
        if (std::string_view(name) == "swap-devices") {
            std::vector<int> devices;
            for (std::size_t i = 0; i < of.graph.op_count(); ++i) {
                devices.push_back(static_cast<int>(of.groups.groups().of[i] % 4));
            }
            start = plan::whole_ops(devices, of.problem.policy());
        }
        Random random(2);
        std::optional<Proposal> there;
        while (!there) there = propose_from(of, *find_move(name), start, random);
        EXPECT_EQ(there->log_ratio, 0);
        const Strategy state = applied(of, start, there->changes);
        bool returned = false;
        for (int i = 0; i < 2'000 && !returned; ++i) {
            const auto back = propose_from(of, *find_move(name), state, random);
            if (!back) continue;
            const Strategy after = applied(of, state, back->changes);
            returned = after == start;
        }
        EXPECT_TRUE(returned) << name;
    }
}

TEST(Moves, ParametersFollowTheirReaderAndStayInShards) {
    Case of(one_product(), plan::switched_machine(4), training());
    Strategy state = of.data_parallel();
    const OpId product = of.space.computing()[0];
    const OpId weight = of.space.parameters().at(0);
    const auto give = [&](const OpConfig& config) {
        const State base(of.space.table(), state);
        ProposalBuilder builder(of.space);
        builder.start(base);
        builder.set(product, of.space.table().id(product, config));
        Changes changes;
        ASSERT_TRUE(builder.finish(changes));
        state = applied(of, state, changes);
    };
    const DeviceSet all = DeviceSet::progression(0, 4, 1);
    const int columns = of.problem.facts().rule(product).operands[1].dims[1].factors[0];
    EXPECT_EQ(sharding_of(of.problem, weight, state), ParameterSharding::as_read);
    give({.axes = {Axis::along(columns, 4)}, .devices = all});
    EXPECT_EQ(names_of(of.problem.facts().rule(weight), state.config(weight).axes),
              (plan::AxisNames{{"d1", 4}}));
    // Back to the batch, then ZeRO-3, then over two devices: still ZeRO-3.
    give(of.data_parallel().config(product));
    const auto zero3 = sharded(of.problem, weight, state.config(weight),
                               ParameterSharding::in_shards, /*micro_batches=*/1);
    ASSERT_TRUE(zero3);
    state.ops[weight.index()] = *zero3;
    const Axis batch = of.data_parallel().config(product).axes[0];
    give({.axes = {batch.with_degree(2)}, .devices = DeviceSet::progression(2, 2, 1)});
    EXPECT_EQ(sharding_of(of.problem, weight, state), ParameterSharding::in_shards);
    EXPECT_EQ(state.config(weight).devices, DeviceSet::progression(2, 2, 1));
    EXPECT_EQ(find_fault(of.problem, state), std::nullopt);
}

// The loss lies as the scores do, however the rows' numbers are found.
TEST(Moves, WhatALossAddsDoesNotMoveItsOutput) {
    plan::ProblemOptions options = training();
    options.policy.loss = plan::LossKind::cross_entropy;
    Case of(one_product(), plan::switched_machine(4), options);
    const Strategy state = of.data_parallel();
    const auto& ops = of.problem.graph().ops();
    const auto found = std::ranges::find(ops, "ReduceLogSumExp", &graph::Op::type);
    ASSERT_NE(found, ops.end());
    const OpId rows(static_cast<std::size_t>(found - ops.begin()));
    const OpId output(ops.size() - 1);
    ASSERT_EQ(of.problem.graph().op(output).kind, graph::OpKind::output);
    const int classes = of.problem.facts().rule(rows).operands[0].dims.back().factors[0];
    const State base(of.space.table(), state);
    ProposalBuilder builder(of.space);
    builder.start(base);
    builder.set(rows, of.space.table().id(rows, {.axes = {Axis::along(classes, 4)},
                                                 .devices = DeviceSet::progression(0, 4, 1)}));
    Changes changes;
    ASSERT_TRUE(builder.finish(changes));
    EXPECT_EQ(applied(of, state, changes).config(output), state.config(output));
}

// A fused projection: each device has its columns of all three parts.
TEST(Moves, NeighboursFollowThroughReshapesInBlocks) {
    plan::NetworkBuilder build;
    const auto x = build.source("x", graph::TensorRole::input, {8, 16});
    const auto fused = build.add("MatMul", {x, build.weight({16, 48})}, {{8, 48}})[0];
    const auto shape = build.source("shape", graph::TensorRole::constant, {3}, graph::DType::int64);
    build.add("Reshape", {fused, shape}, {{8, 3, 16}});
    build.add_outputs();
    Case of(std::move(build.graph), plan::switched_machine(4), {});
    const OpId product = of.op("MatMul1");
    const OpId reshape = of.op("Reshape2");
    const auto link = links_of(of.problem, reshape).at(0);
    const DeviceSet all = DeviceSet::progression(0, 4, 1);
    const int columns = of.problem.facts().rule(product).results[0].dims[1].factors[0];
    const OpConfig config{.axes = {Axis::along(columns, 4, /*blocks=*/3)}, .devices = all};
    const OpConfig propagated = propagate(of.problem, link, product, config, 1);
    ASSERT_EQ(propagated.axes.size(), 1U);
    EXPECT_EQ(propagated.axes[0].degree, 4);
    EXPECT_FALSE(propagated.axes[0].is_replica());
    EXPECT_EQ(propagate(of.problem, link, reshape, propagated, 1), config);
    // Then nothing moves between the two.
    const Strategy start = of.data_parallel();
    const auto tasks_with = [&](const OpConfig& reshaped) {
        const State base(of.space.table(), start);
        ProposalBuilder builder(of.space);
        builder.start(base);
        builder.set(product, of.space.table().id(product, config));
        builder.set(reshape, of.space.table().id(reshape, reshaped));
        Changes changes;
        if (!builder.finish(changes)) return std::size_t{0};
        return lower(of.problem, applied(of, start, changes)).size();
    };
    const std::size_t tasks = tasks_with(propagated);
    EXPECT_GT(tasks, 0U);
    EXPECT_LT(tasks, tasks_with({.axes = {Axis::replicas(4)}, .devices = all}));
}

TEST(Moves, ChangeOfRepeatsChangesAllBlocksAlike) {
    Case of(support::chain_network(16), plan::switched_machine(4), training());
    const Strategy state = of.data_parallel();
    Random random(1);
    const auto proposal = propose_from(of, *find_move("change-repeats"), state, random);
    ASSERT_TRUE(proposal);
    const Strategy next = applied(of, state, proposal->changes);
    for (const OpId op : of.space.computing()) {
        for (const OpId twin : of.space.repeats().twins(op)) {
            EXPECT_EQ(next.config(op), next.config(twin));
        }
    }
}

TEST(Moves, AShiftedBorderKeepsAPipeline) {
    ProblemOptions options = training(4);
    options.policy.schedule = *plan::schedule_from_text("1f1b");
    Case of(support::chain_network(16), plan::switched_machine(4), options);
    Grids grids(of.groups);
    const Strategy state = grids.strategy({.stages = 4, .groups = 1, .group_size = 1});
    ASSERT_EQ(plan::find_schedule_fault(of.problem, state), std::nullopt);
    Random random(3);
    int kept = 0;
    for (int i = 0; i < 60; ++i) {
        const auto proposal = propose_from(of, *find_move("shift-border"), state, random);
        if (!proposal) continue;
        const Strategy next = applied(of, state, proposal->changes);
        if (!plan::find_schedule_fault(of.problem, next)) ++kept;
    }
    EXPECT_GT(kept, 30);
}

}  // namespace
}  // namespace partita::search
