// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "cost/profile/profile.h"
#include "graph/operators/part_op.h"
#include "graph/operators/part_signature.h"
#include "plan/problem/shortest_task.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

Prices::Prices(const GraphFacts& facts, const cost::Machine& machine,
               std::shared_ptr<const cost::CostModel> costs)
    : facts_(facts),
      machine_(machine),
      costs_(std::move(costs)),
      uses_signatures_(costs_->uses_signatures()) {
    classify_devices();
    const std::size_t ops = facts_.graph().op_count();
    forward_.resize(ops * class_device_.size());
    backward_.resize(forward_.size());
    update_.resize(forward_.size());
    if (facts_.splits_backward()) weights_.resize(forward_.size());
    for (std::size_t i = 0; i < ops; ++i) {
        for (const int device : class_device_) price_op(OpId(i), device);
    }
}

void Prices::classify_devices() {
    for (int device = 0; device < machine_.device_count(); ++device) {
        const auto same = std::find_if(class_device_.begin(), class_device_.end(), [&](int other) {
            return cost::priced_alike(machine_.device(other), machine_.device(device));
        });
        device_class_.push_back(static_cast<int>(same - class_device_.begin()));
        if (same == class_device_.end()) class_device_.push_back(device);
    }
}

void Prices::price_op(OpId op, int device) {
    const std::size_t at = index(op, device);
    const PartSize size = whole_size(op);
    if (facts_.has_forward(op)) forward_[at] = forward_price(op, size, device);
    if (facts_.has_backward(op)) backward_[at] = backward_price(op, size, device);
    if (facts_.splits_backward(op)) weights_[at] = weights_price(op, size, device);
    if (facts_.works().is_updated(op)) update_[at] = price(facts_.works().update(op), device);
}

PartSize Prices::whole_size(OpId op) const {
    const graph::OpGraph& graph = facts_.graph();
    const graph::OpRule& rule = facts_.rule(op);
    PartSize size = plan::whole_size(graph, op, rule);
    if (uses_signatures_ && facts_.has_forward(op)) {
        const graph::PartOp part = part_op(graph, op, rule, graph::whole_box(rule));
        size.signature = part_signature(graph, op, part);
    }
    return size;
}

cost::Price Prices::price(const cost::Work& work, int device) const {
    std::optional<cost::Price> price = costs_->price(work, machine_.device(device));
    if (!price) {
        throw InputError(fmt::format("cost model '{}' has no price for operator '{}' on '{}'",
                                     costs_->name(), work.type, machine_.device(device).name));
    }
    // Objectives of given costs add up times and have no tasks.
    if (work.given == nullptr) price->time = std::max(price->time, kShortestTask);
    return *price;
}

cost::Price Prices::forward_price(OpId op, const PartSize& size, int device) const {
    cost::Work work = facts_.works().forward(op, size);
    if (size.signature.text.empty()) return price(work, device);
    const cost::WorkSignature signature = facts_.works().forward_signature(op, size);
    work.signature = &signature;
    return price(work, device);
}

cost::Price Prices::pass_price(OpId op, const PartSize& size, Pass pass, int device) const {
    const std::vector<char> wanted = facts_.wanted(op, pass);
    cost::Work work = facts_.works().backward(op, size, wanted);
    if (size.signature.text.empty()) return price(work, device);
    const cost::WorkSignature signature = OpWorks::backward_signature(size, wanted);
    work.signature = &signature;
    return price(work, device);
}

cost::Price Prices::backward_price(OpId op, const PartSize& size, int device) const {
    cost::Price backward = pass_price(op, size, Pass::backward, device);
    backward.time += weights_price(op, size, device).time;
    return backward;
}

cost::Price Prices::weights_price(OpId op, const PartSize& size, int device) const {
    if (!facts_.splits_backward(op)) return {.time = Time{0}};
    return pass_price(op, size, Pass::weights, device);
}

cost::Price Prices::update_price(OpId op, std::int64_t elements, int device) const {
    return price(facts_.works().update(op, elements), device);
}

cost::Price Prices::accumulate_price(TensorId t, std::int64_t elements, int device) const {
    return price(accumulate_work(facts_.graph().tensor(t), elements), device);
}

cost::Price Prices::pack_price(TensorId t, std::int64_t elements, bool gradient, int device) const {
    return price(pack_work(facts_.graph().tensor(t), elements, gradient), device);
}

cost::Price Prices::norm_price(Bytes gradients, int device) const {
    return price(norm_work(gradients), device);
}

std::string Prices::digest(const cost::CollectiveModel& collectives) const {
    Sha256 sha;
    sha.add(costs_->name()).add(collectives.name()).add(std::int64_t{device_class_count()});
    for (const auto* prices : {&forward_, &backward_, &update_}) {
        for (const cost::Price& price : *prices) sha.add(price.time.raw());
    }
    return "sha256:" + sha.finish();
}

}  // namespace partita::plan
