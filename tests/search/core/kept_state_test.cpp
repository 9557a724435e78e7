// SPDX-License-Identifier: Apache-2.0
//
// What is kept is never more than what is needed, and of ZeRO's levels what they say.
#include "search/core/kept_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/hybrid_parallel/zero.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::Strategy;

plan::ProblemOptions training() {
    return {.mode = plan::Mode::training,
            .objective = plan::Objective::step_time,
            .policy = {.optimizer = plan::Optimizer::adam}};
}

Bytes most_needed(const Problem& problem, const Strategy& strategy) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = simulate(tasks, plan::Scheduler::pct);
    return std::ranges::max(peak_memory(tasks, timeline.commit_order));
}

TEST(KeptState, OfRandomStrategiesIsNoMoreThanWhatIsNeeded) {
    int beyond = 0;
    for (const std::uint64_t seed : support::seeds(400)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const graph::OpGraph graph =
            plan::random_network(random, 1 + plan::draw(random, 6), plan::Layers::samples_apart);
        const Bytes memory(1 + plan::draw(random, 400));
        const cost::Machine machine = plan::switched_machine_of(1 + plan::draw(random, 6), memory);
        const Problem problem = plan::make_problem(graph, machine, training());
        const Strategy strategy =
            plan::random_strategy(random, problem, 1 + static_cast<int>(seed % 2));
        const Bytes kept = kept_beyond_memory(problem, strategy);
        if (kept == Bytes{0}) continue;
        ++beyond;
        EXPECT_LE(memory + kept, most_needed(problem, strategy)) << text_of(problem, strategy);
    }
    std::cout << beyond << " keep more than there is\n";
    EXPECT_GT(beyond, support::draws(100));
}

/// w [64 64] on four devices that share the batch: by how much it is more than one byte.
std::int64_t kept_at(ZeroLevel level) {
    const cost::Machine machine = plan::switched_machine_of(4, Bytes{1});
    plan::NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {8, 64});
    build.add("MatMul", {x, build.weight({64, 64})}, {{8, 64}});
    build.add_outputs();
    const Problem problem = plan::make_problem(build.graph, machine, training());
    const Strategy strategy =
        data_parallel_strategy(problem, plan::DeviceSet::progression(0, 4, 1), level);
    return kept_beyond_memory(problem, strategy).raw() + 1;
}

// Weights of 4 bytes, two moments of 4: Rajbhandari et al., ZeRO, SC 2020, section 3.1, without
// gradients.
TEST(KeptState, OfZeroIsInShards) {
    constexpr std::int64_t kElements = 64 * 64;
    EXPECT_EQ(kept_at(ZeroLevel::none), 12 * kElements);
    EXPECT_EQ(kept_at(ZeroLevel::gradients), 4 * kElements + 2 * kElements);
    EXPECT_EQ(kept_at(ZeroLevel::parameters), 3 * kElements);
}

}  // namespace
}  // namespace partita::search
