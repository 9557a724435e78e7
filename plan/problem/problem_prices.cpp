// SPDX-License-Identifier: Apache-2.0
//
// Prices of a problem's parts, moves and collectives, and the least that each of them can be.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "base/error.h"
#include "graph/operators/part_op.h"
#include "graph/operators/part_signature.h"
#include "plan/problem/op_costs.h"
#include "plan/problem/problem.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

namespace {

/// Aliases and given costs may take no time. A task does, so that no two things happen in sequence
/// at one moment: what is ready then is known before anything starts (simulate.h).
constexpr Time kShortestTask{1};

bool any_has_gaps(const graph::OpGraph& graph, const std::vector<graph::OpRule>& rules) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
        if (has_gaps(graph, OpId(i), rules[i])) return true;
    }
    return false;
}

}  // namespace

PartSize Problem::whole_size(OpId op) const {
    const graph::OpRule& rule = rules_[op.index()];
    PartSize size = plan::whole_size(graph_, op, rule);
    if (uses_signatures_ && has_forward(op)) {
        const graph::PartOp part = part_op(graph_, op, rule, graph::whole_box(rule));
        size.signature = part_signature(graph_, op, part);
    }
    return size;
}

void Problem::price_op(OpId op, std::size_t device_class) {
    const int device = class_device_[device_class];
    const std::size_t at = cost_index(op, device);
    const PartSize size = whole_size(op);
    if (has_forward(op)) forward_[at] = forward_price(op, size, device);
    if (has_backward(op)) backward_price_[at] = backward_price(op, size, device);
    if (works().is_updated(op)) update_[at] = price(works().update(op), device);
    if (!least_.empty()) least_[at] = least_of(op, device);
}

void Problem::price_ops() {
    forward_.resize(graph_.op_count() * static_cast<std::size_t>(class_count_));
    backward_price_.resize(forward_.size());
    update_.resize(forward_.size());
    if (uses_signatures_ || any_has_gaps(graph_, rules_)) least_.resize(forward_.size());
    best_time_.resize(graph_.op_count());
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const OpId op(i);
        for (std::size_t c = 0; c < class_device_.size(); ++c) price_op(op, c);
        Time best = Time::max();
        for (const int device : allowed_devices(op)) best = std::min(best, total_time(op, device));
        best_time_[i] = best;
    }
}

cost::Price Problem::price(const cost::Work& work, int device) const {
    std::optional<cost::Price> price = costs_->price(work, machine_.device(device));
    if (!price) {
        throw InputError(fmt::format("cost model '{}' has no price for operator '{}' on '{}'",
                                     costs_->name(), work.type, machine_.device(device).name));
    }
    // Objectives of given costs add up times and have no tasks.
    if (work.given == nullptr) price->time = std::max(price->time, kShortestTask);
    return *price;
}

cost::Price Problem::forward_price(OpId op, const PartSize& size, int device) const {
    cost::Work work = works().forward(op, size);
    if (size.signature.text.empty()) return price(work, device);
    const cost::WorkSignature signature = works().forward_signature(op, size);
    work.signature = &signature;
    return price(work, device);
}

cost::Price Problem::backward_price(OpId op, const PartSize& size, int device) const {
    cost::Work work = works().backward(op, size);
    if (size.signature.text.empty()) return price(work, device);
    const cost::WorkSignature signature = works().backward_signature(op, size);
    work.signature = &signature;
    return price(work, device);
}

cost::Price Problem::update_price(OpId op, std::int64_t elements, int device) const {
    return price(works().update(op, elements), device);
}

cost::Price Problem::accumulate_price(TensorId t, std::int64_t elements, int device) const {
    return price(accumulate_work(graph_.tensor(t), elements), device);
}

cost::Price Problem::pack_price(TensorId t, std::int64_t elements, int device) const {
    return price(pack_work(graph_.tensor(t), elements), device);
}

/// By the roofline and the least share of it that was measured, where costs are measured: parts of
/// any size sum up to that.
Problem::Least Problem::least_of(OpId op, int device) const {
    const cost::Device& on = machine_.device(device);
    Least least{.task = on.launch_interval};
    const auto of = [&](const cost::Work& work) {
        if (work.given != nullptr || !uses_signatures_) return price(work, device).time;
        const cost::Share share = costs_->least_share(work, on);
        least.task = std::min(least.task, share.of(on.launch_interval));
        return share.of(std::max(cost::Roofline().price(work, on)->time, kShortestTask));
    };
    const OpWorks works = this->works();
    const PartSize size = least_size(graph_, op, rule(op));
    if (has_forward(op)) least.forward = of(works.forward(op, size));
    if (has_backward(op)) least.backward = of(works.backward(op, size));
    if (works.is_updated(op)) least.update = of(works.update(op));
    return least;
}

/// Then parts are replicas of the whole.
bool Problem::is_never_cut(OpId op) const {
    // Replicas that share a memory were measured apart from a part that is alone.
    const bool beside =
        uses_signatures_ && std::ranges::any_of(machine_.devices(), [](const auto& d) {
            return d.kind == cost::DeviceKind::cpu;
        });
    return !beside && split_limit(op) == 1 && (!is_batched(op) || most_micro_batches() == 1);
}

Time Problem::least_forward_time(OpId op, int device) const {
    if (least_.empty() || is_never_cut(op)) return forward_time(op, device);
    return least_[cost_index(op, device)].forward;
}

Time Problem::least_backward_time(OpId op, int device) const {
    if (least_.empty() || is_never_cut(op)) return backward_time(op, device);
    return least_[cost_index(op, device)].backward;
}

Time Problem::least_update_time(OpId op, int device) const {
    return least_.empty() ? update_time(op, device) : least_[cost_index(op, device)].update;
}

Time Problem::least_accumulate_time(TensorId t, int device) const {
    const std::int64_t elements = graph_.tensor(t).elements();
    if (!uses_signatures_) return accumulate_price(t, elements, device).time;
    const cost::Work work = accumulate_work(graph_.tensor(t), elements);
    const cost::Device& on = machine_.device(device);
    return costs_->least_share(work, on).of(
        std::max(cost::Roofline().price(work, on)->time, kShortestTask));
}

Time Problem::least_task_time(OpId op, int device) const {
    return least_.empty() ? machine_.device(device).launch_interval
                          : least_[cost_index(op, device)].task;
}

Time Problem::copy_time(TensorId t, int from, int to) const {
    return copy_time(t, graph_.tensor(t).bytes(), from, to);
}

cost::Price Problem::copy_price(TensorId t, Bytes bytes, int from, int to) const {
    assert(from != to);
    const auto& given = graph_.op(graph_.tensor(t).producer).given;
    if (given) {
        return {.time = std::max(given->communication_time, kShortestTask),
                .source = cost::CostSource::given};
    }
    if (measures_transfers_) {
        if (auto price = collectives_->copy_price(from, to, bytes, machine_)) {
            price->time = std::max(price->time, kShortestTask);
            return *price;
        }
    }
    return {.time = std::max({machine_.copy_time(from, to, bytes),
                              machine_.device(from).launch_interval, kShortestTask})};
}

cost::CollectivePrice Problem::collective_price(const cost::CollectiveCall& call) const {
    cost::CollectivePrice price = *collectives_->price(call, machine_);
    price.time =
        std::max({price.time, machine_.device(call.devices[0]).launch_interval, kShortestTask});
    return price;
}

}  // namespace partita::plan
