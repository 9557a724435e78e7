// SPDX-License-Identifier: Apache-2.0
#include "tests/search/mcmc/moves/move_cases.h"

#include <utility>

#include "plan/legality/config_legality.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/hybrid_parallel/expert.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"
#include "tests/support/random_graph.h"

namespace partita::search {

using graph::OpId;
using graph::SoapClass;
using plan::ProblemOptions;
using plan::Strategy;

ProblemOptions training(int micro_batches) {
    ProblemOptions options{.mode = plan::Mode::training, .objective = plan::Objective::step_time};
    options.policy.micro_batches = micro_batches;
    return options;
}

Case::Case(graph::OpGraph of, const cost::Machine& on, const ProblemOptions& options)
    : graph(std::move(of)),
      machine(on),
      problem(plan::make_problem(graph, machine, options)),
      groups(problem, make_groups(problem, Grouping::all)),
      space(groups) {}

Strategy Case::data_parallel() const {
    return data_parallel_strategy(problem, data_parallel_devices(problem)[0]);
}

/// Strategies of different kinds to start from.
std::vector<Strategy> starts(const Case& of) {
    std::vector<Strategy> starts{
        of.data_parallel(),
        plan::whole_ops(std::vector<int>(of.graph.op_count(), 0), of.problem.policy())};
    if (!of.problem.constraints().whole_ops()) {
        Grids grids(of.groups);
        starts.push_back(grids.strategy({.stages = 2, .groups = 1, .group_size = 2}));
        starts.push_back(grids.strategy({.stages = 1, .groups = 2, .group_size = 2}));
    }
    std::erase_if(starts,
                  [&](const Strategy& start) { return find_fault(of.problem, start).has_value(); });
    return starts;
}

std::vector<std::unique_ptr<Case>> cases() {
    const cost::Machine machine = plan::switched_machine(4, {0, 0, 1, 1});
    std::vector<std::unique_ptr<Case>> cases;
    const auto add = [&](graph::OpGraph graph, const ProblemOptions& options) {
        cases.push_back(std::make_unique<Case>(std::move(graph), machine, options));
    };
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        Random random(seed);
        add(support::random_network(random, 20), training());
    }
    ProblemOptions restricted = training();
    restricted.constraints.unsplit = {SoapClass::parameter, SoapClass::attribute};
    add(lenet(), restricted);
    ProblemOptions whole;
    whole.constraints.whole_ops = true;
    add(two_step_rnn(), whole);
    ProblemOptions free = training(2);
    free.constraints.most_micro_batches = 8;
    free.constraints.free_schedule = true;
    add(support::chain_network(12), free);
    ProblemOptions fixed;
    fixed.constraints.allowed = {{}, {}, {1, 2}, {0, 1, 2}, {}, {3}};
    fixed.constraints.together = {{OpId(4U), OpId(6U)}};
    add(support::chain_network(8), fixed);
    ProblemOptions partners = training(2);
    partners.constraints.most_micro_batches = 4;
    partners.constraints.free_schedule = true;
    partners.constraints.allowed = {{}, {}, {0, 1, 2}};
    partners.constraints.together = {
        {OpId(5U), OpId(3U)}, {OpId(3U), OpId(9U), OpId(7U)}, {OpId(1U), OpId(11U)}};
    add(support::chain_network(12), partners);
    ProblemOptions recomputing = training();
    recomputing.policy.recompute = plan::Recompute::automatic;
    Random random(5);
    add(plan::in_layer_blocks(random, support::random_network(random, 20)), recomputing);
    return cases;
}

}  // namespace partita::search
