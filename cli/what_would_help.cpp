// SPDX-License-Identifier: Apache-2.0
#include "cli/what_would_help.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "api/request.h"
#include "base/error.h"
#include "cost/machine/what_if.h"
#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"

namespace partita::cli {
namespace {

std::optional<Time> value_of(const plan::Problem& problem, const plan::Strategy& strategy,
                             plan::Scheduler scheduler) {
    const plan::Evaluation evaluation =
        plan::make_evaluator(problem, scheduler)->evaluate(strategy);
    if (!evaluation.feasible()) return std::nullopt;
    return evaluation.value;
}

struct Scaled {
    std::string_view what;
    std::string_view path;  ///< of --scale
};
constexpr std::array kScaled = {
    Scaled{"bandwidth between nodes x 2", "network"}, Scaled{"bandwidth inside nodes x 2", "node"},
    Scaled{"FLOP/s x 2", "compute"}, Scaled{"memory bandwidth x 2", "device.memory_bandwidth"}};

}  // namespace

std::vector<Help> what_would_help(const Planned& planned, const plan::Strategy& strategy,
                                  plan::Scheduler scheduler) {
    const Loaded& loaded = *planned.loaded;
    std::vector<Help> helps;
    if (loaded.model.is_workload()) return helps;
    const Time now = plan::make_evaluator(*loaded.problem, scheduler)->evaluate(strategy).value;
    if (now <= Time{0}) return helps;
    const auto add = [&](std::string what, const plan::Problem& problem,
                         const plan::Strategy& changed) {
        if (plan::find_fault(problem, changed)) return;  // such as micro-batches that are too small
        if (const auto value = value_of(problem, changed, scheduler)) {
            helps.push_back({std::move(what), *value, *value / now});
        }
    };
    const auto options = [&] {
        plan::ProblemOptions same = api::problem_options(planned.plan);
        same.policy = loaded.problem->policy();
        same.mode = loaded.problem->mode();
        same.objective = loaded.problem->objective();
        return same;
    };
    for (const Scaled& scaled : kScaled) {
        try {
            const cost::Machine machine = cost::changed(
                loaded.machine, {.set = {}, .scale = {std::string(scaled.path) + "=2"}});
            add(std::string(scaled.what),
                api::make_problem(loaded.model, machine, options(), loaded.costs), strategy);
        } catch (const UsageError&) {
            continue;  // it has no such links
        }
    }
    plan::Strategy changed = strategy;
    if (strategy.policy.host_time.any()) {
        plan::ProblemOptions without = options();
        without.policy.host_time = changed.policy.host_time = {};
        add("kernels launched in no time",
            api::make_problem(loaded.model, loaded.machine, std::move(without), loaded.costs),
            changed);
        changed = strategy;
    }
    const int twice = 2 * strategy.policy.micro_batches;
    if (twice <= plan::kMostMicroBatches) {
        plan::ProblemOptions more = options();
        more.policy.micro_batches = changed.policy.micro_batches = twice;
        add("micro-batches x 2",
            api::make_problem(loaded.model, loaded.machine, std::move(more), loaded.costs),
            changed);
    }
    std::ranges::stable_sort(helps, {}, &Help::value);
    return helps;
}

}  // namespace partita::cli
