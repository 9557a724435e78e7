// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/clip_work.h"

#include <utility>

#include <ATen/Functions.h>

#include "runtime/communicate/all_reduce.h"

namespace partita::runtime {

namespace {

/// clip_grad_norm_'s.
constexpr double kLeastNorm = 1e-6;

/// float32 of what is narrower.
at::Tensor squares_of(const at::Tensor& gradient) {
    const auto type = gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return at::linalg_vector_norm(gradient, 2, c10::nullopt, /*keepdim=*/false, type).square();
}

}  // namespace

GradientNorm::GradientNorm(double most, const std::vector<at::Device>& places) : most_(most) {
    for (const at::Device device : places) places_.push_back({device, {}, {}});
}

void GradientNorm::join(Exchange& exchange, std::unique_ptr<MailboxCommunicator> communicator) {
    exchange_ = &exchange;
    communicator_ = std::move(communicator);
}

Time GradientNorm::add(std::size_t place, at::Tensor squares) {
    Place& own = places_[place];
    own.factor = at::Tensor();
    if (exchange_ == nullptr) {
        own.squares = std::move(squares);
        return {};
    }
    own.squares = squares.to(at::kCPU, at::kDouble);  // waits for a GPU
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < places_.size()) return {};
    arrived_.store(0, std::memory_order_relaxed);
    return add_up_processes();
}

Time GradientNorm::add_up_processes() {
    total_ = at::zeros({1}, at::kDouble);
    for (const Place& each : places_) total_.add_(each.squares);
    communicator_->set_note(exchange_->now());
    communicator_->all_reduce(total_, graph::Combine::sum);
    return nanoseconds(communicator_->latest());
}

const at::Tensor& GradientNorm::factor(std::size_t place) {
    Place& own = places_[place];
    if (own.factor.defined()) return own.factor;
    at::Tensor sum;
    if (exchange_ != nullptr) {
        sum = total_[0].to(own.device, at::kFloat);
    } else {
        for (const Place& each : places_) {
            const at::Tensor here = each.squares.to(own.device);
            sum = sum.defined() ? at::add(sum, here) : here;
        }
    }
    own.factor =
        at::clamp_max(at::mul(at::reciprocal(at::add(sum.sqrt(), kLeastNorm)), most_), 1.0);
    return own.factor;
}

void ClipWork::run(Store& store) {
    at::Tensor sum = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device_));
    for (const Fetch& gradient : gradients_) sum = at::add(sum, squares_of(gradient.get(store)));
    met_ = norm_->add(place_, std::move(sum));
}

}  // namespace partita::runtime
