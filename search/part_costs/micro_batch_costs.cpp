// SPDX-License-Identifier: Apache-2.0
#include "search/part_costs/micro_batch_costs.h"

#include <algorithm>

#include "graph/op_graph.h"
#include "plan/problem/micro_batches.h"
#include "plan/problem/recompute_regions.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;

namespace {

/// One device of each class.
std::vector<int> class_devices(const plan::Problem& problem) {
    std::vector<int> devices(static_cast<std::size_t>(problem.prices().device_class_count()), -1);
    for (int d = problem.device_count(); d-- > 0;) {
        devices[static_cast<std::size_t>(problem.prices().device_class(d))] = d;
    }
    return devices;
}

}  // namespace

MicroBatchCosts::MicroBatchCosts(const plan::Problem& problem, int micro_batches)
    : problem_(problem), micro_batches_(micro_batches) {
    even_ = micro_batches == 1 || plan::batch_extent(problem.facts()) % micro_batches == 0;
    const std::vector<int> devices = class_devices(problem);
    passes_.reserve(problem.graph().op_count() * devices.size());
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        for (const int device : devices) passes_.push_back(find(OpId(i), device));
    }
    runs_again_.resize(problem.graph().op_count(), 0);
    for (const plan::LayerBlock& block : problem.facts().recompute().blocks()) {
        const plan::RecomputeRegion* const region = block.region(problem.policy().recompute);
        if (region == nullptr) continue;
        for (const OpId op : region->ops) runs_again_[op.index()] = 1;
    }
}

/// Windows over a batch that is cut and measured times have no share that is known.
bool MicroBatchCosts::knows_shares(OpId op) const {
    if (problem_.prices().uses_signatures() || problem_.graph().op(op).given) return false;
    if (runs(op) == 1) return true;
    if (!even_) return false;
    const std::vector<graph::BatchDigit>& digits = problem_.facts().batch_digits(op);
    for (const graph::TensorRule& operand : problem_.facts().rule(op).operands) {
        for (const graph::DimRule& dim : operand.dims) {
            if (dim.window && digits[static_cast<std::size_t>(dim.factors[0])].extent > 0) {
                return false;
            }
        }
    }
    return true;
}

/// Does a micro-batch read its own part of the operand? Also of what is the same for all, but has
/// their dim: a mask.
bool MicroBatchCosts::is_cut(OpId op, std::size_t operand) const {
    const std::vector<graph::BatchDigit>& digits = problem_.facts().batch_digits(op);
    const auto has_batch = [&](const graph::DimRule& dim) {
        return std::ranges::any_of(dim.factors, [&](std::int32_t factor) {
            return digits[static_cast<std::size_t>(factor)].extent > 0;
        });
    };
    return problem_.facts().is_batched(problem_.graph().op(op).inputs[operand]) ||
           std::ranges::any_of(problem_.facts().rule(op).operands[operand].dims, has_batch);
}

std::optional<plan::PartSize> MicroBatchCosts::share_of(OpId id) const {
    if (!knows_shares(id)) return std::nullopt;
    const graph::Op& op = problem_.graph().op(id);
    plan::PartSize size = plan::least_size(problem_.graph(), id, problem_.facts().rule(id));
    if (runs(id) == 1) return size;
    size.flops = Flops(size.flops.raw() / micro_batches_);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i].valid() && is_cut(id, i)) size.operands[i] /= micro_batches_;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (problem_.facts().is_batched(op.outputs[i])) size.results[i] /= micro_batches_;
    }
    return size;
}

/// `whole`: what all micro-batches take at least; `share`: what is known of one.
MicroBatchCosts::PassCost MicroBatchCosts::pass(OpId op, int device, Time whole, Time share) const {
    const std::int64_t count = runs(op);
    if (count == 1) return {whole, whole};
    const Time launch = std::min(whole, problem_.bounds().least_task_time(op, device));
    const Time run = std::max({share, launch, Time((whole.raw() - 1) / count)});
    return {run, std::max(whole, count * run)};
}

MicroBatchCosts::Passes MicroBatchCosts::find(OpId op, int device) const {
    Time forward;
    Time backward;
    const auto size = runs(op) > 1 ? share_of(op) : std::nullopt;
    if (size && problem_.facts().has_forward(op)) {
        forward = problem_.prices().forward_price(op, *size, device).time;
    }
    if (size && problem_.facts().has_backward(op)) {
        backward = problem_.prices().backward_price(op, *size, device).time;
    }
    Passes passes{pass(op, device, problem_.bounds().least_forward_time(op, device), forward),
                  pass(op, device, problem_.bounds().least_backward_time(op, device), backward)};
    if (problem_.facts().splits_backward(op)) {
        // What waits for the backward does not wait for the gradients of weights.
        passes.backward.run = least_of_activations(op, device);
    }
    return passes;
}

/// Of one micro-batch, without the gradients of weights; Time{0}: it is not known.
Time MicroBatchCosts::least_of_activations(OpId op, int device) const {
    const auto size = share_of(op);
    if (!size) return Time{0};
    return problem_.prices().backward_price(op, *size, device).time -
           problem_.prices().weights_price(op, *size, device).time;
}

/// Each micro-batch adds what its readers give to a tensor that is the same for all; to any other,
/// each reader gives one contribution in all.
std::int64_t MicroBatchCosts::additions(TensorId t) const {
    if (!problem_.facts().has_gradient(t)) return 0;
    std::int64_t contributions = 0;
    for (const graph::Use use : problem_.graph().uses(t)) {
        if (!problem_.facts().has_backward(use.op)) continue;
        contributions += problem_.facts().is_batched(t) ? 1 : runs(use.op);
    }
    return std::max<std::int64_t>(0, contributions - 1);
}

}  // namespace partita::search
