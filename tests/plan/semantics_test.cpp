// SPDX-License-Identifier: Apache-2.0
//
// Lowered programs compute what one device computes: forward, backward and update, for random
// networks with uneven extents and random legal splits of everything (interpreter.h).
#include <gtest/gtest.h>

#include <vector>

#include "plan/config.h"
#include "plan/lower.h"
#include "plan/simulate.h"
#include "search/random.h"
#include "tests/plan/interpreter.h"
#include "tests/plan/random_networks.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpGraph;
using search::Random;

Interpretation interpreted(const Problem& problem, const Strategy& strategy) {
    const TaskGraph tasks = lower(problem, strategy);
    return interpret(problem, strategy, tasks, simulate(tasks, Scheduler::pct).commit_order);
}

void expect_same_as_one_device(std::uint64_t seed, int micro_batches) {
    Random random(seed);
    const OpGraph graph = random_uneven_network(random, 1 + draw(random, 6));
    const cost::Machine machine = switched_machine(12);
    const Problem problem =
        make_problem(graph, machine, {.mode = Mode::training, .objective = Objective::step_time});
    const Strategy alone = on_devices(std::vector<int>(graph.op_count(), 0));
    const Strategy strategy = random_strategy(random, problem, micro_batches);
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt) << "seed " << seed;
    const Interpretation expected = interpreted(problem, alone);
    Interpretation actual;
    ASSERT_NO_THROW(actual = interpreted(problem, strategy)) << "seed " << seed;
    EXPECT_EQ(actual.outputs, expected.outputs) << "seed " << seed;
    EXPECT_EQ(actual.parameters, expected.parameters) << "seed " << seed;
}

TEST(Semantics, RandomSplitsComputeWhatOneDeviceComputes) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        expect_same_as_one_device(seed, 1);
        if (HasFatalFailure()) return;
    }
}

TEST(Semantics, MicroBatchesComputeWhatOneBatchComputes) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        expect_same_as_one_device(seed, 2 + static_cast<int>(seed % 2));
        if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace partita::plan
