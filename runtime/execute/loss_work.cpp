// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/loss_work.h"

#include <algorithm>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/execute/made_up_values.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using plan::LossKind;

namespace {

/// One class per row of the output, or one number per element: the target, or the weight in a sum.
at::Tensor target_of(const graph::Tensor& output, LossKind kind, const graph::Region& region,
                     at::TensorOptions as) {
    graph::Shape shape = output.shape;
    graph::Region part = region;
    if (kind == LossKind::cross_entropy && !shape.empty()) {
        shape.pop_back();
        part.dims.pop_back();
    }
    const at::Tensor values = made_up_values(kTargetSeed, output.name, shape, part);
    if (kind == LossKind::mse) return values.to(as);
    if (kind == LossKind::sum) return at::mul(values, 2.0).to(as);
    const std::int64_t classes = output.shape.empty() ? 1 : output.shape.back();
    return at::floor(values * static_cast<double>(classes)).to(as.dtype(at::kLong));
}

}  // namespace

LossWork::LossWork(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId task,
                   const graph::Region& region, at::Device device, const LossOptions& options)
    : options_(options) {
    const graph::OpGraph& graph = problem.graph();
    const graph::TensorId t = graph.op(tasks.tasks[task.index()].op).inputs[0];
    const graph::Tensor& output = graph.tensor(t);
    const auto as =
        at::TensorOptions().dtype(scalar_type_of(output.dtype).value_or(at::kFloat)).device(device);
    seen_ = Fetch(tasks, buffers_of(tasks, task, t, false), region, as);
    const auto writes = tasks.writes[task.index()];
    if (!writes.empty()) gradient_ = writes[0];
    const auto elements = std::max<std::int64_t>(1, output.elements());
    const LossKind kind = options.kind;
    const std::int64_t classes =
        kind == LossKind::cross_entropy && !output.shape.empty() ? output.shape.back() : 1;
    if (kind != LossKind::sum) {
        share_ = static_cast<double>(classes) / static_cast<double>(elements);
    }
    if (kind != LossKind::sum || options.weighs_sums) target_ = target_of(output, kind, region, as);
}

double LossWork::value() const {
    return options_.counts && value_.defined() ? value_.item<double>() : 0.0;
}

at::Tensor LossWork::gradient_of(const at::Tensor& output) {
    switch (options_.kind) {
    case LossKind::sum:
        value_ = at::sum(target_.defined() ? output * target_ : output);
        return target_.defined() ? target_.clone() : at::ones_like(output);
    case LossKind::mse: {
        const at::Tensor difference = output - target_;
        value_ = at::sum(at::square(difference)) * share_;
        return difference * (2.0 * share_);
    }
    case LossKind::cross_entropy: break;
    }
    const at::Tensor logarithms = at::log_softmax(output, -1);
    const at::Tensor classes = target_.unsqueeze(-1);
    value_ = at::sum(at::gather(logarithms, -1, classes)) * -share_;
    const at::Tensor hit = at::full_like(classes, -1.0, output.options());
    return at::exp(logarithms).scatter_add_(-1, classes, hit).mul_(share_);
}

void LossWork::run(Store& store) {
    at::Tensor gradient = gradient_of(seen_.get(store));
    if (gradient_.valid()) store[gradient_] = std::move(gradient);
}

}  // namespace partita::runtime
