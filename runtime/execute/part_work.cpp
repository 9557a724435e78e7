// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/part_work.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "plan/layout/layout.h"
#include "plan/problem/micro_batches.h"
#include "plan/tensors/tensor_events.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::PartOperand;
using graph::TensorId;
using plan::TaskGraph;

namespace {

at::TensorOptions options_of(const graph::Tensor& tensor, bool gradient, at::Device device) {
    return at::TensorOptions()
        .dtype(scalar_type_of(tensor.type_of(gradient)).value_or(at::kFloat))
        .device(device);
}

/// What a task finds of operand `index`, of the region that the part reads.
Fetch operand_of(const plan::Problem& problem, const TaskGraph& tasks, plan::TaskId task,
                 const graph::PartOp& part, std::size_t index, at::Device device) {
    const graph::Op& op = problem.graph().op(tasks.tasks[task.index()].op);
    const PartOperand& operand = part.operands[index];
    if (operand.source != PartOperand::Source::region) return {};
    const TensorId t = op.inputs[index];
    return {tasks, buffers_of(tasks, task, t, false), operand.region,
            options_of(problem.graph().tensor(t), false, device)};
}

}  // namespace

graph::Box box_of(const plan::Problem& problem, const plan::Strategy& strategy,
                  const plan::Task& task) {
    const graph::Box base = micro_batch_box(problem.facts(), task.op, strategy.policy.micro_batches,
                                            std::max(task.micro_batch, 0));
    return plan::Parts(problem.facts().rule(task.op), strategy.config(task.op), base)
        .box(std::max(task.part, 0));
}

ForwardWork::ForwardWork(const plan::Problem& problem, const TaskGraph& tasks, plan::TaskId task,
                         std::shared_ptr<PartState> state, at::Device device, bool leaves_tape)
    : state_(std::move(state)) {
    const graph::Op& op = problem.graph().op(tasks.tasks[task.index()].op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        operands_.push_back(operand_of(problem, tasks, task, state_->kernel.op(), i, device));
    }
    leaves_tape_ = leaves_tape && state_->kernel.needs_tape() &&
                   std::ranges::any_of(state_->wanted, [](char wanted) { return wanted != 0; });
    for (const plan::BufferId b : tasks.writes[task.index()]) {
        const TensorId t = tasks.buffers[b.index()].tensor;
        const auto found = std::ranges::find(op.outputs, t);
        const auto index = static_cast<std::size_t>(found - op.outputs.begin());
        results_.push_back({.index = index,
                            .buffer = b,
                            .declared = extents_of(state_->kernel.op().results[index].region),
                            .upper_bounds = problem.graph().tensor(t).upper_bound_dims});
    }
}

void ForwardWork::run(Store& store) {
    Tensors operands;
    for (const Fetch& fetch : operands_) operands.push_back(fetch.get(store));
    Tensors results = leaves_tape_ ? state_->kernel.forward(operands, state_->wanted, state_->tape)
                                   : state_->kernel.forward(operands);
    for (const Result& result : results_) {
        check_result(result.index, result.declared, result.upper_bounds, results[result.index]);
        store[result.buffer] = results[result.index];
    }
}

BackwardWork::BackwardWork(const plan::Problem& problem, const TaskGraph& tasks, plan::TaskId task,
                           std::shared_ptr<PartState> state, at::Device device)
    : state_(std::move(state)) {
    const graph::OpGraph& graph = problem.graph();
    const graph::OpId id = tasks.tasks[task.index()].op;
    const graph::Op& op = graph.op(id);
    const graph::OpRule& rule = problem.facts().rule(id);
    const graph::PartOp& part = state_->kernel.op();
    const bool weights = tasks.tasks[task.index()].kind == plan::TaskKind::weights;
    const plan::Pass pass = weights ? plan::Pass::weights : plan::Pass::backward;
    wanted_ = problem.facts().wanted(id, pass);
    is_last_ = weights || !problem.facts().splits_backward(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const bool saved = op.inputs[i].valid() && problem.facts().saves_operand(id, i, pass);
        operands_.push_back(saved ? operand_of(problem, tasks, task, part, i, device) : Fetch());
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const TensorId t = op.outputs[i];
        const auto fetch = [&](bool gradient) -> Fetch {
            return {tasks, buffers_of(tasks, task, t, gradient), part.results[i].region,
                    options_of(graph.tensor(t), gradient, device)};
        };
        const bool saved = t.valid() && rule.saves_result(i);
        results_.push_back(saved ? fetch(false) : Fetch());
        gradients_.push_back(t.valid() && problem.facts().has_gradient(t) ? fetch(true) : Fetch());
    }
    for (const plan::BufferId b : tasks.writes[task.index()]) {
        const plan::Buffer& buffer = tasks.buffers[b.index()];
        if (buffer.region < 0) continue;
        gradient_outputs_.push_back({.operand = static_cast<std::size_t>(buffer.operand),
                                     .buffer = b,
                                     .extents = extents_of((*tasks.regions)[buffer.region]),
                                     .as = options_of(graph.tensor(buffer.tensor), true, device)});
    }
}

void BackwardWork::run(Store& store) {
    const auto all = [&](const std::vector<Fetch>& fetches) {
        Tensors found;
        for (const Fetch& fetch : fetches) found.push_back(fetch.get(store));
        return found;
    };
    const Tape tape = is_last_ ? std::exchange(state_->tape, {}) : state_->tape;
    const Tensors gradients = state_->kernel.backward(tape, all(operands_), all(results_),
                                                      all(gradients_), wanted_, !is_last_);
    for (const GradientOutput& output : gradient_outputs_) {
        const at::Tensor& gradient = gradients[output.operand];
        store[output.buffer] = gradient.defined() ? gradient.to(output.as.dtype()).contiguous()
                                                  : at::zeros(output.extents, output.as);
    }
}

}  // namespace partita::runtime
