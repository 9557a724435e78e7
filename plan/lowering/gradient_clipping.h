// SPDX-License-Identifier: Apache-2.0
//
// Clipping by the norm of all gradients (Policy::clip_norm): no update before the last gradient.
//
//     device 0   gradients ... g1 g2 ┐                          ┌ updates
//     device 1   gradients ... g3    ┤ clip: norm of g1 ... g3  ├ updates
//
// One task on all devices that update anything: each reads the gradients that it holds, then they
// add up one number. What it reads is what updates read, who come after it and keep that; so it has no
// reads of its own in a TaskGraph. Whoever updates scales as it reads. So updates wait for the slowest device, and
// all gradients are there at once.
//
// Source: Pascanu et al., On the difficulty of training recurrent neural networks, ICML 2013,
// algorithm 1; torch.nn.utils.clip_grad_norm_; megatron/core/optimizer/clip_grads.py; RULES.md 18.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// The norm travels as one float32.
inline constexpr Bytes kNormBytes{4};

struct GradientClip {
    std::vector<int> devices;  ///< that take part, rising
    Task task;                 ///< without them and their resources
};

class GradientClipping {
public:
    /// All must outlive it.
    GradientClipping(const Problem& problem, const StrategyTensors& layouts,
                     const RegionTable& regions);

    /// False: there is no such task.
    [[nodiscard]] bool any() const { return !rows_.empty(); }
    /// Rows of StrategyTensors::events with updates, rising.
    [[nodiscard]] const std::vector<std::size_t>& rows() const { return rows_; }
    /// By the tasks of all devices.
    [[nodiscard]] GradientClip find(const TasksOfRow& tasks_of) const;

private:
    const Problem& problem_;
    const StrategyTensors& layouts_;
    const RegionTable& regions_;
    std::vector<std::size_t> rows_;
};

/// Calls `then` with the number of each update among the tasks.
template <class Then>
void for_each_update(const TensorTasks& tasks, Then then) {
    for (std::size_t i = 0; i < tasks.tasks.size(); ++i) {
        if (tasks.tasks[i].kind == TaskKind::update) then(i);
    }
}

}  // namespace partita::plan
