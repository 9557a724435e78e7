// SPDX-License-Identifier: Apache-2.0
#include "api/pricing.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cost/discovery/host.h"
#include "plan/evaluation/max_load.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"

namespace partita::api {
namespace {

void evaluate(const plan::Problem& problem, Priced& priced) {
    priced.evaluation = plan::evaluation_of(problem, priced.tasks, *priced.timeline);
    priced.memory = plan::peak_memory_by_kind(priced.tasks, priced.timeline->commit_order);
    if (problem.objective() == plan::Objective::throughput) {
        priced.evaluation.value = plan::busiest_resource(priced.tasks);
    }
}

}  // namespace

bool fits_host(const plan::Problem& problem, const plan::Evaluation& evaluation) {
    Bytes needed{0};
    for (std::size_t d = 0; d < evaluation.devices.size(); ++d) {
        const bool cpu =
            problem.machine().device(static_cast<int>(d)).kind == cost::DeviceKind::cpu;
        if (cpu) needed += evaluation.devices[d].memory;
    }
    return needed <= cost::host_limits().memory;
}

bool has_timeline(const plan::Problem& problem) {
    return !plan::has_given_costs(problem);
}

Priced price_as_planned(const plan::Problem& problem, const plan::Strategy& strategy,
                        const plan::Plan& plan) {
    if (plan::has_given_costs(problem)) {
        const auto scheduler = plan::scheduler_from_name(plan.scheduler);
        if (scheduler) return price_anew(problem, strategy, *scheduler);
        throw InputError(
            fmt::format("{}: search.scheduler: expected fifo, rank, pct or msr, got "
                        "\"{}\". Give --scheduler, or plan again.",
                        plan.source, plan.scheduler));
    }
    Priced priced{
        .tasks = plan::lower_as_planned(problem, strategy, plan), .timeline = {}, .evaluation = {}};
    priced.timeline = plan::replay(priced.tasks, plan.commit_order);
    if (!priced.timeline) {
        throw InputError(
            fmt::format("{}: order.commit: expected an order of the {} tasks that respects their "
                        "dependencies. Give --scheduler pct to order them anew, or plan again.",
                        plan.source, priced.tasks.size()));
    }
    evaluate(problem, priced);
    return priced;
}

Priced price_anew(const plan::Problem& problem, const plan::Strategy& strategy,
                  plan::Scheduler scheduler) {
    Priced priced{.tasks = plan::lower(problem, strategy), .timeline = {}, .evaluation = {}};
    if (!has_timeline(problem)) {
        priced.evaluation = plan::make_evaluator(problem, scheduler)->evaluate(strategy);
        return priced;
    }
    priced.timeline = plan::simulate(priced.tasks, scheduler);
    evaluate(problem, priced);
    return priced;
}

}  // namespace partita::api
