// SPDX-License-Identifier: Apache-2.0
#include "search/configs/standard_configs.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

namespace partita::search {

using graph::OpId;
using plan::DeviceSet;
using plan::OpConfig;
using plan::Problem;
using plan::Strategy;

std::vector<int> usable_devices(const Problem& problem) {
    std::vector<int> all(static_cast<std::size_t>(problem.device_count()));
    std::iota(all.begin(), all.end(), 0);
    std::vector<char> usable(all.size(), 0);
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (!problem.facts().has_forward(OpId(i))) continue;
        const std::vector<int>& allowed = problem.constraints().allowed_devices(OpId(i));
        if (allowed.size() == all.size()) return all;
        for (const int device : allowed) usable[static_cast<std::size_t>(device)] = 1;
    }
    std::vector<int> devices;
    std::copy_if(all.begin(), all.end(), std::back_inserter(devices),
                 [&](int device) { return usable[static_cast<std::size_t>(device)] != 0; });
    return devices.empty() ? all : devices;
}

std::vector<int> equal_devices(const Problem& problem) {
    const auto flops = [&](int device) {
        return problem.machine().device(device).matrix_flops_of(graph::DType::float32);
    };
    std::vector<int> devices = usable_devices(problem);
    int best = devices.front();
    for (const int d : devices) {
        if (flops(d) > flops(best)) best = d;
    }
    std::erase_if(devices, [&](int d) {
        return problem.prices().device_class(d) != problem.prices().device_class(best);
    });
    return devices;
}

int node_size(const Problem& problem) {
    const std::vector<int> devices = equal_devices(problem);
    return static_cast<int>(std::count_if(devices.begin(), devices.end(), [&](int d) {
        return problem.machine().device(d).node == problem.machine().device(devices[0]).node;
    }));
}

DeviceSet some_of(const std::vector<int>& devices, int first, int count, int stride) {
    std::vector<int> some;
    for (int i = 0; i < count; ++i, first += stride) {
        some.push_back(devices[static_cast<std::size_t>(first)]);
    }
    return DeviceSet::list(std::move(some));
}

OpConfig on_one_device(const Problem& problem, OpId op, const DeviceSet& devices) {
    const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
    for (int i = 0; i < devices.size(); ++i) {
        if (std::binary_search(allowed.begin(), allowed.end(), devices[i])) {
            return {.axes = {}, .devices = DeviceSet::single(devices[i])};
        }
    }
    return {.axes = {}, .devices = DeviceSet::single(allowed.front())};
}

namespace {

std::vector<plan::Axis> axes_with_samples(const Problem& problem, OpId op, int degree) {
    std::vector<plan::Axis> axes;
    const auto& digits = problem.facts().batch_digits(op);
    for (std::size_t f = 0; f < digits.size(); ++f) {
        if (digits[f].extent > 0) axes.push_back(plan::Axis::along(f, degree));
    }
    return axes;
}

}  // namespace

std::vector<plan::Axis> batch_axes(const Problem& problem, OpId op, int degree) {
    if (!problem.facts().is_batched(op)) return {};
    return axes_with_samples(problem, op, degree);
}

std::vector<plan::Axis> sample_axes(const Problem& problem, OpId op, int degree,
                                    int micro_batches) {
    const bool once = micro_batches == 1 && problem.graph().op(op).kind == graph::OpKind::compute;
    return once ? axes_with_samples(problem, op, degree) : batch_axes(problem, op, degree);
}

void join_groups(const Problem& problem, int preferred, Strategy& strategy) {
    for (const auto& group : problem.constraints().together()) {
        const DeviceSet& first = strategy.config(group.front()).devices;
        const bool equal = std::all_of(group.begin(), group.end(), [&](OpId op) {
            return strategy.config(op).devices == first;
        });
        if (equal) continue;
        std::vector<int> common = problem.constraints().allowed_devices(group.front());
        for (const OpId op : group) {
            const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
            std::erase_if(common, [&](int d) {
                return !std::binary_search(allowed.begin(), allowed.end(), d);
            });
        }
        if (common.empty()) continue;
        const bool may = std::binary_search(common.begin(), common.end(), preferred);
        const DeviceSet one = DeviceSet::single(may ? preferred : common.front());
        for (const OpId op : group) strategy.ops[op.index()].config = {.axes = {}, .devices = one};
    }
}

bool is_too_fine(const Problem& problem, int parts, int micro_batches) {
    constexpr std::int64_t kMostParts = 1'000'000;
    const auto ops = static_cast<std::int64_t>(problem.graph().op_count());
    return ops * micro_batches * parts > kMostParts;
}

plan::Policy policy_with(const Problem& problem, int micro_batches) {
    plan::Policy policy = problem.policy();
    policy.micro_batches = micro_batches;
    if (problem.batch().free_schedule()) policy.schedule = kPipelineOrder;
    return policy;
}

void accumulate_locally(const Problem& problem, Strategy& strategy) {
    if (strategy.policy.micro_batches == 1) return;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        if (problem.graph().ops()[i].kind == graph::OpKind::parameter) {
            strategy.ops[i].update.accumulate_locally = true;
        }
    }
}

}  // namespace partita::search
