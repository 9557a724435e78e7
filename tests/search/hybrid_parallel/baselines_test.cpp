// SPDX-License-Identifier: Apache-2.0
//
// What a plan is compared with is the best that people's strategies give when they are tuned,
// whatever searcher found the plan.
#include "search/hybrid_parallel/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search/hybrid_parallel/data_parallel.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using plan::Mode;
using plan::Objective;
using plan::Problem;
using plan::ProblemOptions;

const Baseline& baseline_of(const SearchResult& result, const std::string& name) {
    return *std::ranges::find(result.baselines, name, &Baseline::name);
}

void expect_tuned_baselines(const Problem& problem) {
    const SearchResult quick = search(problem, {.searchers = {"hash"}});
    for (const std::string name : {"data-parallel", "expert"}) {
        SCOPED_TRACE(name);
        const SearchResult own = search(problem, {.searchers = {name}});
        const Baseline& tuned = baseline_of(quick, name);
        if (own.status == Status::infeasible || !tuned.value) continue;
        EXPECT_LE(*tuned.value, own.evaluation.value);
        EXPECT_EQ(*baseline_of(own, name).value, own.evaluation.value);
        EXPECT_EQ(tuned.configuration, configuration_of(problem, own.strategy));
    }
}

TEST(Baselines, AreNoWorseThanPlansOfTheirSearchers) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const graph::OpGraph graph =
            plan::random_network(random, 2 + plan::draw(random, 5), plan::Layers::samples_apart);
        const cost::Machine machine = plan::switched_machine(2 + plan::draw(random, 6));
        ProblemOptions options;
        if (seed % 2 == 0) {
            options.mode = Mode::training;
            options.objective = Objective::step_time;
            options.constraints.most_micro_batches = 4;
        }
        const Problem problem = plan::make_problem(graph, machine, options);
        expect_tuned_baselines(problem);
        ++compared;
    }
    EXPECT_EQ(compared, 12);
}

TEST(Baselines, NameTheirConfiguration) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(
        graph, machine, {.mode = Mode::training, .objective = Objective::step_time});
    const plan::DeviceSet devices = plan::DeviceSet::progression(0, 4, 1);
    const auto words = [&](ZeroLevel zero, int micro_batches) {
        plan::Policy policy = problem.policy();
        policy.micro_batches = micro_batches;
        return configuration_of(problem, data_parallel_strategy(problem, devices, zero, policy));
    };
    EXPECT_EQ(words(ZeroLevel::none, 1), "4 devices");
    EXPECT_EQ(words(ZeroLevel::none, 2), "4 devices, 2 micro-batches");
    EXPECT_EQ(words(ZeroLevel::gradients, 1), "4 devices, ZeRO 2");
    EXPECT_EQ(words(ZeroLevel::parameters, 1), "4 devices, ZeRO 3");
    EXPECT_EQ(configuration_of(problem, plan::whole_ops({0, 0, 0, 0, 0, 0, 0}, {})), "1 device");
}

}  // namespace
}  // namespace partita::search
