// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_bound.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost/machine/workload_machine.h"
#include "importers/workload/workload.h"
#include "plan/evaluation/subgraph_latency.h"
#include "search/bounds/lower_bound.h"
#include "search/coarsening/op_groups.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/search/call_latency/call_cases.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::Problem;

TEST(CallBound, IsBelowTheOptimumOfTinyWorkloads) {
    int tight = 0;
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
        const CallCase of(seed, 2 + static_cast<int>(seed % 6), 1 + static_cast<int>(seed % 2), 1);
        const auto best = of.optimum();
        if (!best) continue;
        const Time bound = call_bound(of.problem());
        ASSERT_LE(bound, *best) << "seed " << seed;
        ASSERT_LE(lower_bound(of.problem()).value, *best) << "seed " << seed;
        tight += bound == *best && bound > lower_bound(of.problem()).critical_path ? 1 : 0;
    }
    EXPECT_GT(tight, 60);
}

/// Longer paths than can be enumerated, placed at random in stretches.
TEST(CallBound, IsBelowRandomPlacements) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        const CallCase of(seed, 8 + static_cast<int>(seed % 20), static_cast<int>(seed % 5), 1);
        const Problem& problem = of.problem();
        const OpGroups groups = make_groups(problem, Grouping::required_only);
        if (!groups.conflict.empty()) continue;
        const Time bound = call_bound(problem);
        plan::SubgraphLatency latency(problem);
        Random random(seed);
        std::vector<int> devices(problem.graph().op_count());
        for (int i = 0; i < 30; ++i) {
            const std::uint64_t stay = random.below(8);
            int last = 0;
            for (std::size_t g = 0; g < groups.size(); ++g) {
                const auto& allowed = groups.devices(g);
                const bool stays = random.below(8) < stay &&
                                   std::binary_search(allowed.begin(), allowed.end(), last);
                if (!stays) last = allowed[random.below(allowed.size())];
                for (const OpId op : groups.members[g]) devices[op.index()] = last;
            }
            const plan::Evaluation evaluation = latency.evaluate(plan::on_devices(devices));
            if (!evaluation.feasible()) continue;
            ++compared;
            ASSERT_LE(bound, evaluation.value) << "seed " << seed;
        }
    }
    EXPECT_GT(compared, 10'000);
}

// a (size 60), b (30), c (60) in a chain, and memory for 100: some edge is cut, b's is the cheaper
// one. On a CPU any of them would take longer than that.
TEST(CallBound, PaysForTheCheapestCutThatMemoryAsksFor) {
    const graph::OpGraph graph = plan::WorkloadBuilder()
                                     .node("a", 10, {}, 7, Bytes{60})
                                     .node("b", 10, {"a"}, 3, Bytes{30})
                                     .node("c", 10, {"b"}, 1, Bytes{60})
                                     .build();
    const cost::Machine machine = cost::make_workload_machine(graph, 2, 1, Bytes{100});
    EXPECT_EQ(call_bound(plan::make_problem(graph, machine)), microseconds(30 + 2 * 3));
}

TEST(CallBound, CountsTheBytesOfWholeGroups) {
    // b and d share a device, so a and b do not fit one.
    const graph::OpGraph graph = plan::WorkloadBuilder()
                                     .node("a", 10, {}, 2, Bytes{60})
                                     .node("b", 10, {"a"}, 0, Bytes{30})
                                     .node("d", 1, {}, 0, Bytes{30})
                                     .build();
    const cost::Machine machine = cost::make_workload_machine(graph, 2, 0, Bytes{100});
    plan::ProblemOptions options;
    EXPECT_EQ(call_bound(plan::make_problem(graph, machine, options)), microseconds(20));
    options.constraints.together = {{OpId(1U), OpId(2U)}};
    EXPECT_EQ(call_bound(plan::make_problem(graph, machine, options)), microseconds(20 + 2 * 2));
}

struct Bounded {
    const char* workload;
    double bound_ms;
};

/// Of bert24 it is the value of the best known plan, which is optimal therefore.
TEST(CallBound, OfThePublishedWorkloads) {
    const Bounded all[] = {{"bert24_inference", 100.2185},
                           {"gnmt_inference", 219.056093},
                           {"op_bert_l-3_inference", 397.188460},
                           {"op_resnet50_inference", 433.409998}};
    for (const auto& [workload, bound_ms] : all) {
        const plan::PublicWorkload of = plan::public_workload(std::string("latency/") + workload);
        const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
        const double bound = static_cast<double>(call_bound(problem).raw()) / 1e9;
        EXPECT_GE(bound, bound_ms - 1e-6) << workload;  // better ones are welcome
    }
}

}  // namespace
}  // namespace partita::search
