// SPDX-License-Identifier: Apache-2.0
//
// `execute --check`: what a plan computes, beside what one device computes.
//
//     iterations 1 and 2    steps of a thousandth of the learning rate, so small that they do not drive
//                           apart what differs in the last digit
//     iteration 3           outputs and gradients are taken, and the last step is made: at rate 4096, so
//                           that it is told from the rounding of the parameter. Nothing reads what it gives.
//
// What is compared of updates is (before - after) / rate of that step, which by then has moments
// and bias corrections in it. Of Adam it is near 1 however small the gradient is, rounding errors
// of one that is 0 included: there each element counts by the magnitude of its gradient on one
// device.
//
// Every copy of a parameter that lies on a device is compared, in all processes. Differences that
// the parameter's own type cannot hold, epsilon * magnitude / rate, are none. A parameter whose
// whole update is below the tolerance times a thousandth of the largest (differences.h) may be left
// alone unseen.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/host_tensor.h"
#include "graph/op_graph.h"
#include "graph/operators/part.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "runtime/execute/executor.h"
#include "runtime/interface/runtime.h"

namespace partita::runtime {

/// Of one copy of a parameter, or of a part of it, on some device.
struct PartUpdate {
    graph::TensorId tensor;
    graph::Region region;
    at::Tensor step;        ///< (before - after) / rate, on the CPU
    double rounding = 0.0;  ///< of an element of `step`, by the type of the parameter
};

struct Outcome {
    std::vector<graph::HostTensor> outputs;
    std::vector<graph::HostTensor> gradients;
    std::vector<PartUpdate> updates;
};

struct CheckedRates {
    double small = 0.0;  ///< of all steps but the last
    double last = 1.0;
};
/// For a problem in training. `learning_rate`: of the measured run.
CheckedRates checked_rates(const plan::Problem& problem, double learning_rate);

/// What a loss that is a sum adds up, its gradient grows with that; 1: the loss is a mean.
std::int64_t summed_elements(const plan::Problem& problem);

/// Of several processes rank 0 gets it; all call it. Without rates of one iteration, and without
/// updates.
Outcome outcome_of(Executor& executor, const std::optional<CheckedRates>& rates);

/// Outputs, gradients and updates of a plan, beside those of one device. An update's tolerance is
/// that of its gradient, and at most a half: one that is left out differs by 1.
std::vector<Difference> differences_between(const graph::OpGraph& graph, plan::Optimizer optimizer,
                                            const Outcome& actual, const Outcome& expected);

}  // namespace partita::runtime
