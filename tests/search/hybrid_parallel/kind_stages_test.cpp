// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/kind_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "search/coarsening/op_groups.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using graph::OpId;
using graph::TensorRole;
using plan::Problem;
using plan::ProblemOptions;

/// Two devices at a third of the speed, gpu2 and gpu3; links of 20 GB/s.
cost::Machine fast_and_slow() {
    constexpr std::int64_t kTimesSlower = 3;
    constexpr std::int64_t kBandwidth = 20'000'000'000;
    const cost::Machine equal = plan::switched_machine(4);
    std::vector<cost::Device> devices(equal.devices().begin(), equal.devices().end());
    for (const std::size_t slow : {2u, 3u}) {
        devices[slow].model = "slow";
        devices[slow].matrix_flops.fill(devices[slow].matrix_flops_of(graph::DType::float32) /
                                        kTimesSlower);
    }
    std::vector<cost::Link> links(equal.links().begin(), equal.links().end());
    for (cost::Link& link : links) link.bandwidth = kBandwidth;
    return {"fast and slow",
            std::move(devices),
            {equal.switches().begin(), equal.switches().end()},
            std::move(links)};
}

/// x [4096 64] ─▶ MatMul [64 1024] ─▶ MatMul [1024 64] ─▶ ... ─▶ y: much to compute, little to
/// send.
graph::OpGraph products_to_compute(int pairs) {
    constexpr std::int64_t kStageBatch = 4096;
    constexpr std::int64_t kNarrow = 64;
    constexpr std::int64_t kWide = 1024;
    plan::NetworkBuilder build;
    graph::TensorId last = build.source("x", TensorRole::input, {kStageBatch, kNarrow});
    for (int i = 0; i < pairs; ++i) {
        last =
            build.add("MatMul", {last, build.weight({kNarrow, kWide})}, {{kStageBatch, kWide}})[0];
        last = build.add("MatMul", {last, build.weight({kWide, kNarrow})},
                         {{kStageBatch, kNarrow}})[0];
    }
    build.add_outputs();
    return std::move(build.graph);
}

ProblemOptions kind_options(int most_micro_batches) {
    ProblemOptions options{.mode = plan::Mode::training, .objective = plan::Objective::step_time};
    options.constraints.most_micro_batches = most_micro_batches;
    options.constraints.free_schedule = true;
    return options;
}

std::vector<plan::Strategy> all_of(const Problem& problem, std::vector<int> micro_batches) {
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    KindStages kinds(groups, std::move(micro_batches));
    std::vector<plan::Strategy> all;
    while (std::optional<plan::Strategy> next = kinds.next()) all.push_back(*std::move(next));
    return all;
}

/// 0: all on fast devices, 1: all on slow ones; -1: on both.
int kind_of(const plan::OpConfig& config) {
    std::set<bool> slow;
    for (int part = 0; part < config.devices.size(); ++part) slow.insert(config.devices[part] > 1);
    return slow.size() > 1 ? -1 : static_cast<int>(*slow.begin());
}

TEST(KindStages, AreLegalPipelinesWhoseStagesAreKinds) {
    const graph::OpGraph graph = products_to_compute(6);
    const cost::Machine machine = fast_and_slow();
    const Problem problem = plan::make_problem(graph, machine, kind_options(16));
    const std::vector<plan::Strategy> all = all_of(problem, {4, 16});
    ASSERT_GE(all.size(), 2u);
    EXPECT_LE(all.size(), KindStages::kMostTried);
    std::set<int> counts;
    std::set<int> first_stages;
    for (const plan::Strategy& strategy : all) {
        EXPECT_EQ(find_fault(problem, strategy), std::nullopt);
        counts.insert(strategy.policy.micro_batches);
        std::set<std::pair<int, int>> flows;  // from kind to kind
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const int kind = kind_of(strategy.ops[i].config);
            ASSERT_GE(kind, 0) << graph.ops()[i].name;
            for (const OpId next : graph.successors(OpId(i))) {
                flows.emplace(kind, kind_of(strategy.config(next)));
            }
        }
        const bool down = flows.contains({0, 1});
        EXPECT_NE(down, flows.contains({1, 0}));  // both kinds, in one direction
        first_stages.insert(down ? 0 : 1);
    }
    EXPECT_EQ(counts, (std::set{4, 16}));
    EXPECT_EQ(first_stages, (std::set{0, 1}));
}

TEST(KindStages, AreForUnequalDevicesWhereOpsMayBeSplit) {
    const graph::OpGraph graph = products_to_compute(2);
    const cost::Machine equal = plan::switched_machine(4);
    const cost::Machine unequal = fast_and_slow();
    ProblemOptions whole = kind_options(16);
    whole.constraints.whole_ops = true;
    EXPECT_TRUE(all_of(plan::make_problem(graph, equal, kind_options(16)), {4}).empty());
    EXPECT_TRUE(all_of(plan::make_problem(graph, unequal, whole), {4}).empty());
    EXPECT_TRUE(all_of(plan::make_problem(graph, unequal, kind_options(16)), {}).empty());
}

// The slow ones are as good as two thirds of a fast one: three quarters of the time, and what
// filling a pipeline takes.
TEST(KindStages, LetExpertUseSlowDevicesToo) {
    const graph::OpGraph graph = products_to_compute(12);
    const cost::Machine machine = fast_and_slow();
    EngineOptions options;
    options.searchers = {"expert"};
    const Problem once = plan::make_problem(graph, machine, kind_options(1));
    const Problem often = plan::make_problem(graph, machine, kind_options(16));
    const SearchResult without = search(once, options);
    const SearchResult with = search(often, options);
    EXPECT_GT(with.strategy.policy.micro_batches, 1);
    EXPECT_LT(with.evaluation.value / without.evaluation.value, 0.9);
    EXPECT_THAT(plan::verify(often, make_plan(often, with)), testing::IsEmpty());
    std::set<int> kinds;
    for (const plan::OpDecision& op : with.strategy.ops) kinds.insert(kind_of(op.config));
    EXPECT_EQ(kinds, (std::set{0, 1}));
}

}  // namespace
}  // namespace partita::search
