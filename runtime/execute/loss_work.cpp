// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/loss_work.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/execute/made_up_values.h"
#include "runtime/kernels/row_blocks.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::TensorId;
using plan::LossKind;

namespace {

/// One number per element, or row of classes.
at::Tensor made_up(const graph::Tensor& output, LossKind kind, const graph::Region& region) {
    graph::Shape shape = output.shape;
    graph::Region part = region;
    if (kind == LossKind::cross_entropy && !shape.empty()) {
        shape.pop_back();
        part.dims.pop_back();
    }
    return made_up_values(kTargetSeed, output.name, shape, part);
}

/// By class of the whole output: which one it is of the part, or -1.
at::Tensor own_numbers(std::int64_t classes, const graph::Positions& positions) {
    const at::Tensor numbers = at::full({classes}, -1, at::kLong);
    std::int64_t next = 0;
    for (const graph::Range range : positions) {
        const std::int64_t end = next + range.end - range.begin;
        numbers.narrow(0, range.begin, end - next).copy_(at::arange(next, end, at::kLong));
        next = end;
    }
    return numbers;
}

}  // namespace

LossWork::LossWork(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId task,
                   const graph::Box& box, at::Device device, const LossOptions& options)
    : options_(options) {
    const graph::OpGraph& graph = problem.graph();
    const graph::OpId id = tasks.tasks[task.index()].op;
    const graph::Op& op = graph.op(id);
    const graph::OpRule& rule = problem.facts().rule(id);
    const auto region_of = [&](std::size_t i) {
        return graph::region_of(rule, rule.operands[i], graph.tensor(op.inputs[i]).shape, box);
    };
    const auto fetch = [&](std::size_t i) {
        const TensorId t = op.inputs[i];
        const auto type = scalar_type_of(graph.tensor(t).dtype).value_or(at::kFloat);
        return Fetch(tasks, buffers_of(tasks, task, t, false), region_of(i),
                     at::TensorOptions().dtype(type).device(device));
    };
    seen_ = fetch(0);
    if (op.inputs.size() > 1) rows_ = fetch(1);
    const auto writes = tasks.writes[task.index()];
    if (!writes.empty()) gradient_ = writes[0];
    const graph::Tensor& output = graph.tensor(op.inputs[0]);
    const auto type = scalar_type_of(output.dtype).value_or(at::kFloat);
    find_targets(output, region_of(0), at::TensorOptions().dtype(type).device(device));
}

void LossWork::find_targets(const graph::Tensor& output, const graph::Region& region,
                            at::TensorOptions as) {
    const auto elements = static_cast<double>(std::max<std::int64_t>(1, output.elements()));
    switch (options_.kind) {
    case LossKind::sum:
        if (options_.weighs_sums)
            target_ = at::mul(made_up(output, options_.kind, region), 2.0).to(as);
        return;
    case LossKind::mse:
        share_ = 1.0 / elements;
        target_ = made_up(output, options_.kind, region).to(as);
        return;
    case LossKind::cross_entropy: break;
    }
    if (output.shape.empty()) return;  // one class
    const std::int64_t classes = output.shape.back();
    share_ = static_cast<double>(classes) / elements;
    const at::Tensor wanted =
        at::floor(made_up(output, options_.kind, region) * static_cast<double>(classes));
    const graph::Positions& own = region.dims.back();
    const at::Tensor number =
        at::take(own_numbers(classes, own), wanted.to(at::kLong)).unsqueeze(-1);
    is_here_ = number.ge(0).to(as);
    target_ = at::clamp_min(number, 0).to(as.device());
    counts_rows_ = own.empty() || own.front().begin == 0;
    has_all_classes_ = own == graph::Positions{{0, classes}};
}

double LossWork::value() const {
    return options_.counts && value_.defined() ? value_.item<double>() : 0.0;
}

at::Tensor LossWork::gradient_of(const at::Tensor& output, const Store& store) {
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
    if (!target_.defined()) return at::zeros_like(output);
    return gradient_of_classes(output, rows_.get(store));
}

/// `rows`: of a type that is as wide or wider.
at::Tensor LossWork::gradient_of_classes(const at::Tensor& output, const at::Tensor& rows) {
    const at::ScalarType wide = at::promote_types(output.scalar_type(), rows.scalar_type());
    const at::Tensor hit = is_here_.to(wide);
    const at::Tensor chosen = at::sum(at::gather(output, -1, target_) * hit, at::kDouble);
    const at::Tensor all = at::sum(rows, at::kDouble);
    value_ = (counts_rows_ ? all - chosen : -chosen) * share_;
    if (output.numel() == 0) return at::empty_like(output);
    const auto matrix = [](const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); };
    const Rows of{.logits = matrix(output),
                  .sums = matrix(rows),
                  .classes = matrix(target_),
                  .hits = matrix(hit)};
    return (has_all_classes_ ? whole_gradient(of) : part_gradient(of)).reshape(output.sizes());
}

/// All classes are here: one kernel gives the shares. Those of the targets are worked out apart, as
/// 16 bits hold too little of what they lack of 1.
at::Tensor LossWork::whole_gradient(const Rows& rows) const {
    const at::Tensor share = (at::gather(rows.logits, 1, rows.classes) - rows.sums).exp_();
    at::Tensor gradient = at::softmax(rows.logits, 1).mul_(share_);
    return gradient.scatter_(1, rows.classes,
                             (share - rows.hits).mul_(share_).to(gradient.scalar_type()));
}

at::Tensor LossWork::part_gradient(const Rows& rows) const {
    at::Tensor gradient = at::empty_like(rows.logits, at::MemoryFormat::Contiguous);
    for_row_blocks(rows.logits, [&](std::int64_t first, std::int64_t count) {
        const auto block = [&](const at::Tensor& x) { return x.narrow(0, first, count); };
        const at::Tensor distance = block(rows.logits) - block(rows.sums);
        const at::Tensor exact =
            distance.exp_().scatter_add_(1, block(rows.classes), -block(rows.hits));
        block(gradient).copy_(exact.mul_(share_));
    });
    return gradient;
}

void LossWork::run(Store& store) {
    at::Tensor gradient = gradient_of(seen_.get(store), store);
    if (gradient_.valid()) store[gradient_] = std::move(gradient);
}

}  // namespace partita::runtime
