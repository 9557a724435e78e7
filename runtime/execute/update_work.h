// SPDX-License-Identifier: Apache-2.0
//
// Update of a parameter, or of the part of it that a device updates:
//
//     sgd        w -= rate g                                 g = gradient of the mean loss
//     momentum   v  = momentum v + g;  w -= rate v
//     adam       m  = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g g
//                w -= rate (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + epsilon)
//
// In place where the device keeps the parameter; otherwise the updating device has a copy of its
// own. Moments are float32, and so is a master copy of a narrower parameter (REFERENCES 4).
// Source: Kingma, Ba, ICLR 2015, algorithm 1 (Adam); Sutskever et al., ICML 2013, as PyTorch has
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/clip_work.h"
#include "runtime/execute/combine_work.h"
#include "runtime/execute/fetch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

struct OptimizerOptions {
    double rate = 1e-2;
    double momentum = 0.9;
    double first_decay = 0.9;
    double second_decay = 0.999;
    double epsilon = 1e-8;
};

class UpdateWork final : public Work {
public:
    struct Target {
        plan::BufferId buffer;  ///< the new value
        /// A resident that holds the whole part: updated there (from resident to part).
        std::optional<Resident> kept;
        std::vector<Resident> residents;  ///< others on the device
        at::Tensor own;                   ///< without `kept`: the value before the first update
    };
    UpdateWork(plan::Optimizer optimizer, const OptimizerOptions& options, Fetch gradient,
               Target target, ClipFactor clip = {});
    void run(Store& store) override;
    /// Of the updates that follow.
    void set_rate(double rate) { options_.rate = rate; }

    /// The gradient of the latest update, as it was clipped; only kept if asked for.
    void keep_gradient() { keeps_gradient_ = true; }
    [[nodiscard]] const at::Tensor& gradient() const { return latest_gradient_; }

private:
    void start(const at::Tensor& value);
    [[nodiscard]] bool is_one_kernel(const at::Tensor& exact) const;
    void update_at_once(const at::Tensor& exact, const at::Tensor& gradient);
    /// What is subtracted, apart from the rate.
    [[nodiscard]] at::Tensor direction(const at::Tensor& gradient);

    plan::Optimizer optimizer_;
    OptimizerOptions options_;
    Fetch gradient_;
    Target target_;
    ClipFactor clip_;
    std::int64_t steps_ = 0;
    at::Tensor master_;  ///< float32, of a narrower parameter
    at::Tensor first_;   ///< velocity, or the first moment
    at::Tensor second_;
    bool keeps_gradient_ = false;
    at::Tensor latest_gradient_;
};

}  // namespace partita::runtime
