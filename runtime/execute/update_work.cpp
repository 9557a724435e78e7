// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/update_work.h"

#include <cmath>
#include <utility>

#include <ATen/Functions.h>

namespace partita::runtime {

using plan::Optimizer;

UpdateWork::UpdateWork(Optimizer optimizer, const OptimizerOptions& options, Fetch gradient,
                       Target target, ClipFactor clip)
    : optimizer_(optimizer),
      options_(options),
      gradient_(std::move(gradient)),
      target_(std::move(target)),
      clip_(std::move(clip)) {}

void UpdateWork::start(const at::Tensor& value) {
    const auto as = value.options().dtype(at::kFloat);
    if (value.scalar_type() != at::kFloat && value.scalar_type() != at::kDouble) {
        master_ = value.to(at::kFloat);
    }
    const auto zeros = [&] { return at::zeros(value.sizes(), as); };
    if (optimizer_ != Optimizer::sgd) first_ = zeros();
    if (optimizer_ == Optimizer::adam) second_ = zeros();
}

/// ATen's kernel reads and writes parameter, gradient and both moments once, all of one type.
bool UpdateWork::is_one_kernel(const at::Tensor& exact) const {
    return optimizer_ == Optimizer::adam && exact.scalar_type() == first_.scalar_type() &&
           (exact.is_cpu() || exact.is_cuda()) && exact.is_contiguous() && exact.numel() > 0;
}

void UpdateWork::update_at_once(const at::Tensor& exact, const at::Tensor& gradient) {
    const at::Tensor count = at::full({}, steps_, first_.options());
    at::_fused_adam_({exact}, {gradient}, {first_}, {second_}, /*max_exp_avg_sqs=*/{}, {count},
                     options_.rate, options_.first_decay, options_.second_decay,
                     /*weight_decay=*/0.0, options_.epsilon, /*amsgrad=*/false,
                     /*maximize=*/false);
}

at::Tensor UpdateWork::direction(const at::Tensor& gradient) {
    switch (optimizer_) {
    case Optimizer::sgd: return gradient;
    case Optimizer::momentum: first_.mul_(options_.momentum).add_(gradient); return first_;
    case Optimizer::adam: break;
    }
    first_.mul_(options_.first_decay).add_(gradient, 1.0 - options_.first_decay);
    second_.mul_(options_.second_decay).addcmul_(gradient, gradient, 1.0 - options_.second_decay);
    const auto t = static_cast<double>(steps_);
    const double first_share = 1.0 - std::pow(options_.first_decay, t);
    const double second_share = 1.0 - std::pow(options_.second_decay, t);
    const at::Tensor spread =
        at::sqrt(second_).mul_(1.0 / std::sqrt(second_share)).add_(options_.epsilon);
    return at::div(first_, spread).mul_(1.0 / first_share);
}

void UpdateWork::run(Store& store) {
    const at::Tensor value =
        target_.kept ? target_.kept->patch.view_of(store[target_.kept->buffer]) : target_.own;
    if (steps_++ == 0) start(value);
    const at::Tensor gradient = gradient_.get(store);
    const at::Tensor exact = master_.defined() ? master_ : value;
    at::Tensor wide = gradient.to(exact.scalar_type());
    if (clip_.norm) wide = wide.mul(clip_.norm->factor(clip_.place));
    if (keeps_gradient_) latest_gradient_ = wide.to(gradient.scalar_type(), false, /*copy=*/true);
    if (is_one_kernel(exact)) {
        update_at_once(exact, wide.contiguous());
    } else {
        exact.add_(direction(wide), -options_.rate);
    }
    if (master_.defined()) value.copy_(master_);
    for (const Resident& resident : target_.residents)
        resident.patch.copy(store[resident.buffer], value);
    store[target_.buffer] = value;
}

}  // namespace partita::runtime
