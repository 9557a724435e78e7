// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/zero.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "search/coarsening/op_groups.h"
#include "search/hybrid_parallel/grids.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using graph::DType;
using graph::TensorId;
using graph::TensorRole;

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kWidth = 256;

/// x -> MatMul [w 4w] -> Relu -> MatMul [4w w] in bfloat16.
graph::OpGraph feed_forward() {
    plan::NetworkBuilder build;
    const auto source = [&](const char* name, TensorRole role, graph::Shape shape) {
        return build.source(name, role, std::move(shape), DType::bfloat16);
    };
    const TensorId x = source("x", TensorRole::input, {kRows, kWidth});
    const TensorId up = source("up", TensorRole::parameter, {kWidth, 4 * kWidth});
    const TensorId down = source("down", TensorRole::parameter, {4 * kWidth, kWidth});
    const TensorId wide = build.add("MatMul", {x, up}, {{kRows, 4 * kWidth}})[0];
    const TensorId relu = build.add("Relu", {wide}, {{kRows, 4 * kWidth}})[0];
    const TensorId y = build.add("MatMul", {relu, down}, {{kRows, kWidth}})[0];
    for (const TensorId t : {wide, relu, y}) build.graph.tensor(t).dtype = DType::bfloat16;
    build.add_outputs();
    return std::move(build.graph);
}

/// Model states of a device, of Psi parameters, in a grid of 4 groups of 2 under Adam: 2 bytes for
/// a parameter, 2 for its gradient, K = 12 for the optimizer (Rajbhandari et al., ZeRO, SC 2020,
/// figure 1), of the half that tensor parallelism leaves.
TEST(ZeroInAGrid, HoldsWhatThePublishedTableSays) {
    const graph::OpGraph graph = feed_forward();
    const cost::Machine machine = plan::switched_machine(8);
    plan::ProblemOptions options{.mode = plan::Mode::training,
                                 .objective = plan::Objective::step_time};
    options.policy.optimizer = plan::Optimizer::adam;
    options.policy.micro_batches = 2;
    const plan::Problem problem = plan::make_problem(graph, machine, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    Grids grids(groups, options.policy, {.share_weights = true});
    const std::int64_t psi = 2 * 4 * kWidth * kWidth / 2;
    const auto states = [&](ZeroLevel level) {
        plan::Strategy strategy = grids.strategy({.stages = 1, .groups = 4, .group_size = 2});
        apply_zero(problem, level, strategy);
        EXPECT_EQ(find_fault(problem, strategy), std::nullopt);
        EXPECT_EQ(zero_level(problem, strategy), level);
        const plan::MemoryByKind kept = plan::lower(problem, strategy).persistent[1];
        return kept.total().raw() - kept[plan::MemoryKind::activations].raw();
    };
    EXPECT_EQ(states(ZeroLevel::none), 16 * psi);
    EXPECT_EQ(states(ZeroLevel::optimizer), 4 * psi + 12 * psi / 4);
    EXPECT_EQ(states(ZeroLevel::gradients), 2 * psi + 14 * psi / 4);
    EXPECT_EQ(states(ZeroLevel::parameters), 16 * psi / 4);
}

// Shards of the half that a device has, in each group of replicas: never anything between devices
// that have different halves.
TEST(ZeroInAGrid, CommunicatesAmongReplicasAlone) {
    const graph::OpGraph graph = feed_forward();
    const cost::Machine machine = plan::switched_machine(8);
    const plan::Problem problem = plan::make_problem(
        graph, machine, {.mode = plan::Mode::training, .objective = plan::Objective::step_time});
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    Grids grids(groups, problem.policy(), {.share_weights = true});
    for (const ZeroLevel level : {ZeroLevel::gradients, ZeroLevel::parameters}) {
        plan::Strategy strategy = grids.strategy({.stages = 1, .groups = 4, .group_size = 2});
        apply_zero(problem, level, strategy);
        const plan::TaskGraph tasks = plan::lower(problem, strategy);
        int among_replicas = 0;
        for (const plan::Task& task : tasks.tasks) {
            EXPECT_NE(task.kind, plan::TaskKind::copy) << "level " << static_cast<int>(level);
            if (task.kind != plan::TaskKind::collective) continue;
            const auto devices = tasks.ranks[static_cast<std::size_t>(task.ranks)];
            const bool of_weight = graph.tensor(task.tensor).role == TensorRole::parameter;
            if (!of_weight) continue;
            ++among_replicas;
            ASSERT_EQ(devices.size(), 4u);
            for (const int device : devices) EXPECT_EQ(device % 2, devices[0] % 2);
        }
        EXPECT_GE(among_replicas, 2 * 2 * 2);  // two weights, two halves, there and back
    }
}

}  // namespace
}  // namespace partita::search
