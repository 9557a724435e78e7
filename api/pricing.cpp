// SPDX-License-Identifier: Apache-2.0
#include "api/pricing.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "cost/discovery/host.h"
#include "plan/evaluation/max_load.h"

namespace partita::api {
namespace {

plan::Priced price_by_named(const plan::Problem& problem, const plan::Strategy& strategy,
                            const plan::Plan& plan, plan::Listed listed) {
    const auto scheduler = plan::scheduler_from_name(plan.scheduler);
    if (scheduler) return plan::price(problem, strategy, *scheduler, listed);
    throw InputError(
        fmt::format("{}: search.scheduler: expected fifo, rank, pct or msr, got \"{}\". Give "
                    "--scheduler, or plan again.",
                    plan.source, plan.scheduler));
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

plan::Priced price_as_planned(const plan::Problem& problem, const plan::Strategy& strategy,
                              const plan::Plan& plan, plan::Listed listed) {
    if (!has_timeline(problem) || plan.folded)
        return price_by_named(problem, strategy, plan, listed);
    plan::TaskGraph tasks = plan::lower_as_planned(problem, strategy, plan);
    const std::size_t count = tasks.size();
    auto priced = plan::price_in_order(problem, std::move(tasks), plan.commit_order);
    if (priced) return std::move(*priced);
    throw InputError(
        fmt::format("{}: order.commit: expected an order of the {} tasks that respects their "
                    "dependencies. Give --scheduler pct to order them anew, or plan again.",
                    plan.source, count));
}

}  // namespace partita::api
