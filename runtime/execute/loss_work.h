// SPDX-License-Identifier: Apache-2.0
//
// Loss of an output, or of the part of it that a device sees, and its gradient:
//
//     sum             L = sum of y                                  dL/dy = 1
//     mse             L = mean of (y - t)^2                         2 (y - t) / elements
//     cross-entropy   L = mean over rows of z - y[t]                (exp(y - z) - one_hot(t)) / rows
//
// Means are over the whole output: parts and micro-batches add up (RULES.md 9, 15). The last dim
// holds the classes; z = log sum exp(y) over all of them is an operand (plan/problem/loss_graph.h),
// so that a part may have some of them. Targets are made up (made_up_values.h), by the position of
// the element in the whole output.
//
// A sum tells nothing where what is summed up is normalized: the gradient behind a softmax is 0,
// and only rounding errors are left to compare. So a check weighs each element by a number w in [0,
// 2), made up the same way: L = sum of w y, dL/dy = w.
#pragma once

#include <cstdint>

#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/fetch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

/// Of targets and weights, as made_up_values() takes it.
inline constexpr std::uint64_t kTargetSeed = 0x7A26E7;

struct LossOptions {
    plan::LossKind kind = plan::LossKind::sum;
    bool counts = true;  ///< false where another task sees the same part of the output
    bool weighs_sums = false;
};

class LossWork final : public Work {
public:
    /// `box`: of the part.
    LossWork(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId task,
             const graph::Box& box, at::Device device, const LossOptions& options);
    void run(Store& store) override;

    [[nodiscard]] const Fetch& seen() const { return seen_; }
    /// Of the latest run; 0 where it does not count.
    [[nodiscard]] double value() const;

private:
    [[nodiscard]] at::Tensor gradient_of(const at::Tensor& output, const Store& store);
    [[nodiscard]] at::Tensor gradient_of_classes(const at::Tensor& output, const at::Tensor& rows);
    /// Of cross-entropy, one row per sample: [rows classes], the others [rows 1].
    struct Rows {
        at::Tensor logits;
        at::Tensor sums;     ///< log sum exp of all classes
        at::Tensor classes;  ///< the target's number, of those that are here
        at::Tensor hits;     ///< is_here_
    };
    [[nodiscard]] at::Tensor whole_gradient(const Rows& rows) const;
    [[nodiscard]] at::Tensor part_gradient(const Rows& rows) const;
    void find_targets(const graph::Tensor& output, const graph::Region& region,
                      at::TensorOptions as);

    LossOptions options_;
    Fetch seen_;
    Fetch rows_;               ///< of cross-entropy: log sum exp of each row
    plan::BufferId gradient_;  ///< invalid: nobody wants it
    double share_ = 1.0;       ///< of an element or row in a mean
    at::Tensor target_;        ///< or the weights of a sum; undefined: not weighed
    at::Tensor is_here_;       ///< of cross-entropy: 1 where the part has the target, else 0
    bool has_all_classes_ = false;
    bool counts_rows_ = true;  ///< of cross-entropy: no other part with other classes does
    at::Tensor value_;
};

}  // namespace partita::runtime
