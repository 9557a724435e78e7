// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/data_parallel.h"

#include <algorithm>
#include <utility>

#include "plan/evaluation/max_load.h"
#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"
#include "search/core/engine.h"
#include "search/core/kept_state.h"
#include "search/core/recompute_fit.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using plan::DeviceSet;
using plan::OpConfig;
using plan::Problem;
using plan::Strategy;

namespace {

/// Split along the batch, else repeated, else on one device: the first that is legal.
OpConfig config_of(const Problem& problem, OpId op, const DeviceSet& devices, int micro_batches) {
    if (devices.size() == 1) return on_one_device(problem, op, devices);
    const auto is_legal = [&](const OpConfig& config) {
        return !find_fault(problem, op, config, micro_batches);
    };
    for (const plan::Axis& axis : sample_axes(problem, op, devices.size(), micro_batches)) {
        OpConfig split{.axes = {axis}, .devices = devices};
        if (is_legal(split)) return split;
    }
    OpConfig repeated{.axes = {plan::Axis::replicas(devices.size())}, .devices = devices};
    return is_legal(repeated) ? repeated : on_one_device(problem, op, devices);
}

/// Parameters in turn, the largest first, ties by id.
void serve_parameters(const Problem& problem, const DeviceSet& devices, Strategy& strategy) {
    std::vector<OpId> parameters;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::Op& op = problem.graph().ops()[i];
        if (op.kind == OpKind::parameter && problem.facts().has_gradient(op.outputs[0])) {
            parameters.emplace_back(i);
        }
    }
    std::stable_sort(parameters.begin(), parameters.end(), [&](OpId a, OpId b) {
        return problem.facts().persistent_bytes(a) > problem.facts().persistent_bytes(b);
    });
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const int device = devices[static_cast<int>(i) % devices.size()];
        strategy.ops[parameters[i].index()].config =
            on_one_device(problem, parameters[i], DeviceSet::single(device));
    }
}

void add_halves(const DeviceSet& devices, std::vector<DeviceSet>& sets) {
    for (int count = devices.size(); count >= 2; count /= 2) {
        std::vector<int> first;
        for (int i = 0; i < count; ++i) first.push_back(devices[i]);
        DeviceSet set = DeviceSet::list(std::move(first));
        if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
    }
}

/// The problem's, and where the search may choose, more and more micro-batches.
std::vector<plan::Policy> policies_to_try(const Problem& problem, const DeviceSet& devices) {
    std::vector<plan::Policy> policies = {problem.policy()};
    for (const int micro_batches : problem.batch().micro_batch_choices()) {
        if (micro_batches <= problem.policy().micro_batches) continue;
        if (is_too_fine(problem, devices.size(), micro_batches)) break;
        policies.push_back(policy_with(problem, micro_batches));
    }
    return policies;
}

}  // namespace

Strategy data_parallel_strategy(const Problem& problem, const DeviceSet& devices, ZeroLevel zero) {
    return data_parallel_strategy(problem, devices, zero, problem.policy());
}

Strategy data_parallel_strategy(const Problem& problem, const DeviceSet& devices, ZeroLevel zero,
                                const plan::Policy& policy) {
    Strategy strategy;
    strategy.policy = policy;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        strategy.ops.push_back(
            {.config = config_of(problem, OpId(i), devices, policy.micro_batches)});
    }
    accumulate_locally(problem, strategy);
    plan::apply_recompute(problem.facts().recompute(), strategy);
    if (policy.gradient_sync == plan::GradientSync::parameter_server) {
        serve_parameters(problem, devices, strategy);
    } else {
        apply_zero(problem, zero, strategy);
    }
    join_groups(problem, devices[0], strategy);
    return strategy;
}

std::vector<DeviceSet> data_parallel_devices(const Problem& problem) {
    std::vector<int> all = usable_devices(problem);
    std::vector<int> fastest = equal_devices(problem);
    std::vector<int> node;
    for (const int d : fastest) {
        if (problem.machine().device(d).node == problem.machine().device(fastest[0]).node) {
            node.push_back(d);
        }
    }
    const int best = fastest[0];
    if (plan::has_given_costs(problem) || problem.constraints().whole_ops()) {
        return {DeviceSet::single(best)};
    }
    std::vector<DeviceSet> sets;
    add_halves(DeviceSet::list(std::move(all)), sets);
    add_halves(DeviceSet::list(std::move(fastest)), sets);
    add_halves(DeviceSet::list(std::move(node)), sets);
    std::erase_if(sets, [&](const DeviceSet& set) {
        return is_too_fine(problem, set.size(), problem.policy().micro_batches);
    });
    if (sets.empty()) sets.push_back(DeviceSet::single(best));
    std::stable_sort(sets.begin(), sets.end(),
                     [](const DeviceSet& a, const DeviceSet& b) { return a.size() > b.size(); });
    return sets;
}

Status DataParallel::step(Engine& engine) {
    const Problem& problem = engine.problem();
    if (!std::exchange(started_, true)) devices_ = data_parallel_devices(problem);
    if (next_ == devices_.size()) return Status::found;
    const DeviceSet& devices = devices_[next_++];
    const bool shards = problem.mode() == plan::Mode::training && devices.size() > 1 &&
                        problem.policy().gradient_sync == plan::GradientSync::all_reduce;
    const std::vector<plan::Policy> policies = policies_to_try(problem, devices);
    for (const ZeroLevel zero : {ZeroLevel::none, ZeroLevel::gradients, ZeroLevel::parameters}) {
        const bool is_last = !shards || zero == ZeroLevel::parameters;
        bool fits_at_once = false;
        for (std::size_t i = 0; i < policies.size(); ++i) {
            Strategy strategy = data_parallel_strategy(problem, devices, zero, policies[i]);
            const bool is_hopeless = kept_beyond_memory(problem, strategy) > Bytes{0};
            if (is_hopeless && !is_last) break;
            const auto fitted = evaluate_and_recompute(engine, std::move(strategy));
            if (!fitted) return Status::found;
            const bool fits = fitted->evaluation.feasible();
            fits_at_once = fits && i == 0;
            if (fits || is_hopeless) break;
        }
        // Shards may be quicker than more micro-batches.
        if (fits_at_once || !shards) break;
    }
    return next_ == devices_.size() ? Status::found : Status::in_progress;
}

}  // namespace partita::search
