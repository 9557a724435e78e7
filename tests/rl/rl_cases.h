// SPDX-License-Identifier: Apache-2.0
//
// A problem with all that a policy needs of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rl/action_space.h"
#include "rl/graph_features.h"
#include "rl/option_prices.h"
#include "rl/policy_net.h"
#include "rl/sampler.h"
#include "search/coarsening/group_graph.h"
#include "search/support/random.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::rl {

struct Fixture {
    Fixture(graph::OpGraph the_graph, cost::Machine the_machine, plan::ProblemOptions kind = {},
            ActionSpaceOptions limits = {})
        : graph(std::move(the_graph)),
          machine(std::move(the_machine)),
          problem(plan::make_problem(graph, machine, std::move(kind))),
          groups(problem, search::make_groups(problem, search::Grouping::all)),
          space(groups, limits),
          prices(space),
          sampler(space, prices) {}

    /// Uniform among what is legal.
    Choices draw(search::Random& random) const {
        Choices choices;
        choices.iteration = random.below(space.iterations().size());
        for (std::size_t d = 0; d < space.size(); ++d) {
            std::size_t option = 0;
            do {
                option = random.below(space.options(d).size());
            } while (!space.is_legal(d, option, choices.iteration));
            choices.options.push_back(static_cast<std::int32_t>(option));
        }
        return choices;
    }

    [[nodiscard]] GraphTensors tensors() const {
        return GraphTensors(graph_features(space, prices));
    }

    graph::OpGraph graph;
    cost::Machine machine;
    plan::Problem problem;
    search::GroupGraph groups;
    ActionSpace space;
    OptionPrices prices;
    Sampler sampler;
};

inline plan::ProblemOptions training(int most_micro_batches = 1) {
    plan::ProblemOptions kind;
    kind.mode = plan::Mode::training;
    kind.objective = plan::Objective::step_time;
    kind.constraints.most_micro_batches = most_micro_batches;
    kind.constraints.free_schedule = most_micro_batches > 1;
    return kind;
}

}  // namespace partita::rl
