// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/time_bounds.h"

#include <algorithm>

#include "plan/problem/op_costs.h"
#include "plan/problem/shortest_task.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

namespace {

bool any_has_gaps(const GraphFacts& facts) {
    const graph::OpGraph& graph = facts.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (has_gaps(graph, OpId(i), facts.rule(OpId(i)))) return true;
    }
    return false;
}

/// Replicas that share a memory were measured apart from a part that is alone.
bool measures_replicas_apart(const Prices& prices) {
    return prices.uses_signatures() &&
           std::ranges::any_of(prices.machine().devices(), [](const auto& device) {
               return device.kind == cost::DeviceKind::cpu;
           });
}

Time roofline_time(const cost::Work& work, const cost::Device& device) {
    return std::max(cost::Roofline().price(work, device)->time, kShortestTask);
}

}  // namespace

TimeBounds::TimeBounds(const GraphFacts& facts, const OpConstraints& constraints,
                       const Prices& prices, const BatchChoices& batch)
    : facts_(facts), prices_(prices) {
    const std::size_t ops = facts.graph().op_count();
    best_time_.assign(ops, Time::max());
    for (std::size_t i = 0; i < ops; ++i) {
        for (const int device : constraints.allowed_devices(OpId(i))) {
            best_time_[i] = std::min(best_time_[i], prices.total_time(OpId(i), device));
        }
    }
    if (!prices.uses_signatures() && !any_has_gaps(facts)) return;
    const bool replicas_apart = measures_replicas_apart(prices);
    for (std::size_t i = 0; i < ops; ++i) {
        const OpId op(i);
        const bool is_whole = constraints.split_limit(op) == 1 &&
                              (!facts.is_batched(op) || batch.most_micro_batches() == 1);
        for (const int device : prices.class_devices()) {
            Least& least = least_.emplace_back(least_of_parts(op, device));
            if (!is_whole || replicas_apart) continue;
            // All parts are replicas of the whole.
            least.forward = prices.forward_time(op, device);
            least.backward = prices.backward_time(op, device);
        }
    }
}

TimeBounds::Least TimeBounds::least_of_parts(OpId op, int device) const {
    const cost::Device& on = prices_.machine().device(device);
    const OpWorks& works = facts_.works();
    const PartSize size = least_size(facts_.graph(), op, facts_.rule(op));
    Least least{.task = on.launch_interval};
    if (!prices_.uses_signatures()) {
        if (facts_.has_forward(op)) least.forward = prices_.forward_price(op, size, device).time;
        if (facts_.has_backward(op)) least.backward = prices_.backward_price(op, size, device).time;
        least.update = prices_.update_time(op, device);
        return least;
    }
    const auto of = [&](const cost::Work& work, Time whole) {
        if (work.given != nullptr) return whole;
        const cost::Share share = prices_.costs().least_share(work, on);
        least.task = std::min(least.task, share.of(on.launch_interval));
        return share.of(roofline_time(work, on));
    };
    if (facts_.has_forward(op)) {
        least.forward = of(works.forward(op, size), prices_.forward_time(op, device));
    }
    if (facts_.has_backward(op)) {
        least.backward = of(works.backward(op, size), prices_.backward_time(op, device));
    }
    if (works.is_updated(op)) least.update = of(works.update(op), prices_.update_time(op, device));
    return least;
}

Time TimeBounds::least_accumulate_time(TensorId t, int device) const {
    const graph::Tensor& tensor = facts_.graph().tensor(t);
    if (!prices_.uses_signatures()) {
        return prices_.accumulate_price(t, tensor.elements(), device).time;
    }
    const cost::Work work = accumulate_work(tensor, tensor.elements());
    const cost::Device& on = prices_.machine().device(device);
    return prices_.costs().least_share(work, on).of(roofline_time(work, on));
}

Time TimeBounds::least_task_time(OpId op, int device) const {
    return least_.empty() ? prices_.machine().device(device).launch_interval
                          : least(op, device).task;
}

}  // namespace partita::plan
