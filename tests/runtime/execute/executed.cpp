// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/execute/executed.h"

#include <algorithm>
#include <limits>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "plan/lower.h"
#include "plan/simulate.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

Executed executed(const plan::Problem& problem, const plan::Strategy& strategy,
                  const Sources& sources, int workers, int iterations) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    Placement placement;
    for (int d = 0; d < problem.device_count(); ++d) {
        placement.worker.push_back(d % workers);
        placement.device.emplace_back(at::kCPU);
    }
    Program program =
        make_program(problem, strategy, tasks, timeline.commit_order, sources, placement,
                     {.optimizer = {}, .keep_outputs = true, .keep_gradients = true});
    Executor executor(problem, tasks, std::move(program), placement, {});
    Executed result;
    for (const Iteration& iteration : executor.run(iterations)) {
        result.losses.push_back(iteration.loss);
    }
    result.outputs = executor.outputs();
    result.parameters = executor.parameters();
    result.gradients = executor.gradients();
    return result;
}

double largest_difference(const std::vector<graph::HostTensor>& a,
                          const std::vector<graph::HostTensor>& b) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    if (a.size() != b.size()) return kNever;
    double largest = 0.0;
    for (const graph::HostTensor& expected : b) {
        const auto found = std::ranges::find_if(
            a, [&](const graph::HostTensor& each) { return each.name == expected.name; });
        if (found == a.end() || found->shape != expected.shape) return kNever;
        const at::Tensor x = to_aten(*found).to(at::kDouble);
        const at::Tensor y = to_aten(expected).to(at::kDouble);
        if (x.numel() == 0) continue;
        const double difference = at::max(at::abs(x - y) / (at::abs(y) + 1.0)).item<double>();
        if (!(difference <= largest)) largest = difference;
    }
    return largest;
}

}  // namespace partita::runtime
