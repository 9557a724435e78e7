// SPDX-License-Identifier: Apache-2.0
#include "cli/pricing.h"

#include <fmt/format.h>

#include "graph/error.h"
#include "plan/lower.h"
#include "plan/max_load.h"

namespace partita::cli {
namespace {

bool has_order(const plan::Problem& problem) {
    return problem.objective() != plan::Objective::throughput || !plan::has_given_costs(problem);
}

void evaluate(const plan::Problem& problem, Priced& priced) {
    priced.evaluation = plan::evaluation_of(problem, priced.tasks, *priced.timeline);
    if (problem.objective() == plan::Objective::throughput) {
        priced.evaluation.value = plan::busiest_resource(priced.tasks);
    }
}

Priced price_without_order(const plan::Problem& problem, const plan::Strategy& strategy) {
    return {.tasks = plan::lower(problem, strategy),
            .timeline = std::nullopt,
            .evaluation = plan::given_max_load(problem, strategy)};
}

}  // namespace

Priced price_in_order(const plan::Problem& problem, const plan::Strategy& strategy,
                      const std::vector<plan::TaskId>& order) {
    if (!has_order(problem)) return price_without_order(problem, strategy);
    Priced priced{.tasks = plan::lower(problem, strategy), .timeline = {}, .evaluation = {}};
    priced.timeline = plan::replay(priced.tasks, order);
    if (!priced.timeline) {
        throw InputError(fmt::format(
            "plan: order.commit: expected an order of the {} tasks that respects their "
            "dependencies. Give --scheduler pct to order them anew, or plan again.",
            priced.tasks.size()));
    }
    evaluate(problem, priced);
    return priced;
}

Priced price_anew(const plan::Problem& problem, const plan::Strategy& strategy,
                  plan::Scheduler scheduler) {
    if (!has_order(problem)) return price_without_order(problem, strategy);
    Priced priced{.tasks = plan::lower(problem, strategy), .timeline = {}, .evaluation = {}};
    priced.timeline = plan::simulate(priced.tasks, scheduler);
    evaluate(problem, priced);
    return priced;
}

}  // namespace partita::cli
