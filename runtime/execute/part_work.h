// SPDX-License-Identifier: Apache-2.0
//
// Forward and backward of a part of an op; what is recomputed is a forward too, and the gradients
// of weights, where they have a pass of their own, are a backward. All share the part's kernel and,
// where autograd does the backward, the tape that the forward leaves.
#pragma once

#include <memory>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/fetch.h"
#include "runtime/execute/store.h"
#include "runtime/kernels/part_kernel.h"

namespace partita::runtime {

/// What forward and backward of a part share.
struct PartState {
    PartKernel kernel;
    std::vector<char> wanted;  ///< per operand: its gradient is
    Tape tape;
};

/// Of the part, as `task` (its forward or backward) names it.
graph::Box box_of(const plan::Problem& problem, const plan::Strategy& strategy,
                  const plan::Task& task);

class ForwardWork final : public Work {
public:
    ForwardWork(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId task,
                std::shared_ptr<PartState> state, at::Device device, bool leaves_tape);
    void run(Store& store) override;

private:
    std::shared_ptr<PartState> state_;  ///< shared with the backward
    std::vector<Fetch> operands_;
    bool leaves_tape_;
    struct Result {
        std::size_t index = 0;  ///< of the op's
        plan::BufferId buffer;
        graph::Shape declared;           ///< of the part
        std::uint64_t upper_bounds = 0;  ///< bit i: there may be less of dim i
    };
    std::vector<Result> results_;
};

class BackwardWork final : public Work {
public:
    BackwardWork(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId task,
                 std::shared_ptr<PartState> state, at::Device device);
    void run(Store& store) override;

private:
    std::shared_ptr<PartState> state_;  ///< shared with the forward
    std::vector<Fetch> operands_;       ///< those that are saved
    std::vector<Fetch> results_;        ///< the same
    std::vector<Fetch> gradients_;      ///< of the results
    std::vector<char> wanted_;          ///< per operand: its gradient is, of this pass
    bool is_last_;                      ///< of those that read the tape
    struct GradientOutput {
        std::size_t operand = 0;
        plan::BufferId buffer;
        graph::Shape extents;
        at::TensorOptions as;
    };
    std::vector<GradientOutput> gradient_outputs_;
};

}  // namespace partita::runtime
