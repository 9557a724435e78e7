// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/lowering/interpreter.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "plan/layout/axis_role.h"
#include "plan/layout/layout.h"
#include "plan/lowering/lower.h"
#include "plan/problem/micro_batches.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/lowering/op_meaning.h"

namespace partita::plan {
namespace {

using graph::Combine;
using graph::OpId;
using graph::OpRule;
using graph::TensorId;

std::int64_t noise(std::int64_t a, std::int64_t b) {
    std::uint64_t x = static_cast<std::uint64_t>(a) * 0x9E3779B97F4A7C15U +
                      static_cast<std::uint64_t>(b) * 0xBF58476D1CE4E5B9U + 1;
    x = (x ^ (x >> 31U)) * 0x94D049BB133111EBU;
    return static_cast<std::int64_t>((x ^ (x >> 29U)) % 1000U);
}

/// Per tensor the elements that some reader leaves out (a stride, a slice, another micro-batch):
/// its gradient says nothing of them, which means 0.
class Gaps {
public:
    Gaps(const Problem& problem, int micro_batches)
        : problem_(problem), micro_batches_(micro_batches) {}

    bool has(TensorId t, std::size_t element) {
        const auto [known, is_new] = gaps_.emplace(t.value, std::vector<char>{});
        if (is_new) known->second = find(t);
        return known->second[element] != 0;
    }

private:
    [[nodiscard]] std::vector<char> find(TensorId t) const {
        const graph::OpGraph& graph = problem_.graph();
        const graph::Shape& shape = graph.tensor(t).shape;
        std::vector<char> gaps(unknown(shape).known.size(), 0);
        for (const graph::Use use : graph.uses(t)) {
            if (!problem_.facts().has_backward(use.op)) continue;
            const int parts = problem_.facts().is_batched(use.op) && !problem_.facts().is_batched(t)
                                  ? micro_batches_
                                  : 1;
            for (int m = 0; m < parts; ++m) {
                const OpRule& rule = problem_.facts().rule(use.op);
                const graph::Box box = parts == 1
                                           ? graph::whole_box(rule)
                                           : micro_batch_box(problem_.facts(), use.op, parts, m);
                std::vector<char> read(gaps.size(), 0);
                for_each_element(region_of(rule, rule.operands[use.operand], shape, box), shape,
                                 [&](std::size_t e) { read[e] = 1; });
                for (std::size_t e = 0; e < gaps.size(); ++e) {
                    if (read[e] == 0) gaps[e] = 1;
                }
            }
        }
        return gaps;
    }

    const Problem& problem_;
    int micro_batches_;
    std::map<std::uint32_t, std::vector<char>> gaps_;
};

class Interpreter {
public:
    Interpreter(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks,
                const InterpreterOptions& options)
        : problem_(problem),
          graph_(problem.graph()),
          strategy_(strategy),
          tasks_(tasks),
          options_(options),
          gaps_(problem, strategy.policy.micro_batches),
          values_(tasks.buffers.size()) {}

    Interpretation run(const std::vector<TaskId>& order) {
        for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
            const Buffer& buffer = tasks_.buffers[b];
            if (buffer.writer.valid() || buffer.region < 0) continue;
            write(b, [&](std::size_t i) { return source(buffer.tensor, i); });
        }
        for (const TaskId id : order) {
            at_ = id;
            try {
                run_task(tasks_.tasks[id.index()]);
            } catch (const std::logic_error& error) {
                throw std::logic_error(task_name(problem_, tasks_.tasks[id.index()]) + ": " +
                                       error.what());
            }
        }
        collect_parameters();
        return std::move(result_);
    }

private:
    [[noreturn]] static void fail(const std::string& what) { throw std::logic_error(what); }

    [[nodiscard]] std::int64_t source(TensorId t, std::size_t i) const {
        const auto given = options_.sources.find(t.value);
        return given == options_.sources.end() ? noise_of_source(t, i) : given->second.at(i);
    }

    [[nodiscard]] SparseValue nothing_of(TensorId t) const {
        return t.valid() ? unknown(graph_.tensor(t).shape) : SparseValue{};
    }

    void write(std::size_t buffer, const std::function<std::int64_t(std::size_t)>& value) {
        const Buffer& b = tasks_.buffers[buffer];
        if (b.region < 0) return;
        values_[buffer] = nothing_of(b.tensor);
        for_each_element((*tasks_.regions)[b.region], graph_.tensor(b.tensor).shape,
                         [&](std::size_t i) { values_[buffer].set(i, modulo(value(i))); });
    }

    [[nodiscard]] std::span<const BufferId> writes() const { return tasks_.writes[at_.index()]; }

    /// The buffers whose values a task reads: those that only keep a view's memory are left out.
    [[nodiscard]] std::vector<std::size_t> reads(TaskId task) const {
        std::vector<std::size_t> all;
        const auto listed = tasks_.reads[task.index()];
        for (const BufferId b : listed) {
            const bool is_root = std::any_of(listed.begin(), listed.end(), [&](BufferId v) {
                return tasks_.buffers[v.index()].root == b;
            });
            if (!is_root) all.push_back(b.index());
        }
        return all;
    }

    /// What a task finds of a tensor (or of its gradient) in what it reads.
    [[nodiscard]] SparseValue find(TaskId task, TensorId t, bool gradient) {
        SparseValue found = nothing_of(t);
        if (!t.valid()) return found;
        for (const std::size_t b : reads(task)) {
            const Buffer& buffer = tasks_.buffers[b];
            if (buffer.tensor != t || buffer.gradient != gradient) continue;
            for (std::size_t i = 0; i < found.data.size(); ++i) {
                if (!values_[b].knows(i)) continue;
                if (found.knows(i) && found.data[i] != values_[b].data[i]) {
                    fail("reads two values of '" + graph_.tensor(t).name + "'");
                }
                found.set(i, values_[b].data[i]);
            }
        }
        for (std::size_t i = 0; gradient && i < found.data.size(); ++i) {
            if (!found.knows(i) && gaps_.has(t, i)) found.set(i, 0);
        }
        return found;
    }

    void run_task(const Task& task) {
        switch (task.kind) {
        case TaskKind::forward:
            forward_[key(task)] = at_;
            run_forward(task);
            break;
        case TaskKind::recompute: run_forward(task); break;
        case TaskKind::backward:
        case TaskKind::weights: run_backward(task); break;
        case TaskKind::loss: run_loss(task); break;
        case TaskKind::update: run_update(task); break;
        case TaskKind::clip: run_clip(); break;
        case TaskKind::accumulate:
        case TaskKind::pack:
        case TaskKind::copy:
        case TaskKind::collective: combine(task); break;
        }
    }

    static std::vector<std::int64_t> key(const Task& task) {
        return {task.op.value, task.part, task.micro_batch};
    }

    [[nodiscard]] graph::Box box_of(const Task& task) const {
        const int micro_batches = strategy_.policy.micro_batches;
        const graph::Box base = micro_batch_box(problem_.facts(), task.op, micro_batches,
                                                std::max(task.micro_batch, 0));
        return Parts(problem_.facts().rule(task.op), strategy_.config(task.op), base)
            .box(std::max(task.part, 0));
    }

    [[nodiscard]] OpMeaning meaning_of(const Task& task) const {
        return {graph_, graph_.op(task.op), problem_.facts().rule(task.op), options_.plain};
    }

    void run_forward(const Task& task) {
        const graph::Op& op = graph_.op(task.op);
        std::vector<SparseValue> operands;
        for (const TensorId t : op.inputs) operands.push_back(find(at_, t, false));
        const auto results = meaning_of(task).forward(box_of(task), operands);
        for (const BufferId b : writes()) {
            const std::size_t buffer = b.index();
            for (std::size_t r = 0; r < results.size(); ++r) {
                if (tasks_.buffers[buffer].tensor != op.outputs[r]) continue;
                write(buffer, [&](std::size_t i) { return results[r].data[i]; });
            }
        }
    }

    /// Operands that the op's rule says are saved are read by the backward itself; of the others
    /// the interpreter looks at what the forward read.
    void run_backward(const Task& task) {
        const graph::Op& op = graph_.op(task.op);
        const Pass pass = task.kind == TaskKind::weights ? Pass::weights : Pass::backward;
        const OpMeaning meaning = meaning_of(task);
        std::vector<SparseValue> operands;
        std::vector<SparseValue> results;
        std::vector<SparseValue> upstream;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const bool saved = problem_.facts().saves_operand(task.op, i, pass);
            operands.push_back(find(saved ? at_ : forward_.at(key(task)), op.inputs[i], false));
        }
        for (const TensorId t : op.outputs) {
            results.push_back(meaning.reduction() == Combine::sum ? SparseValue{}
                                                                  : find(at_, t, false));
            upstream.push_back(problem_.facts().has_gradient(t) ? find(at_, t, true)
                                                                : SparseValue{});
        }
        const auto gradients = meaning.backward(box_of(task), operands, results, upstream);
        for (const BufferId b : writes()) {
            const std::size_t buffer = b.index();
            const auto operand = static_cast<std::size_t>(tasks_.buffers[buffer].operand);
            write(buffer, [&](std::size_t i) { return gradients[operand].data[i]; });
        }
    }

    void run_loss(const Task& task) {
        const TensorId t = graph_.op(task.op).inputs[0];
        const SparseValue seen = find(at_, t, false);
        SparseValue& output = result_.outputs.emplace(t.value, nothing_of(t)).first->second;
        for (std::size_t i = 0; i < seen.data.size(); ++i) {
            if (!seen.knows(i)) continue;
            if (output.knows(i) && output.data[i] != seen.data[i]) {
                fail("sees another output than its replica");
            }
            output.set(i, seen.data[i]);
        }
        for (const BufferId b : writes()) {
            write(b.index(), [&](std::size_t i) -> std::int64_t {
                if (!seen.knows(i)) fail("gives the gradient of an output it has not seen");
                if (options_.plain) return 1;
                return noise_of_loss(t, i) * (options_.constant_loss_gradient ? 1 : seen.data[i]);
            });
        }
    }

    /// The squares of all gradients, each element once, however many devices hold it.
    void run_clip() {
        std::map<TensorId, SparseValue> gradients;
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            const Task& task = tasks_.tasks[t];
            if (task.kind != TaskKind::update) continue;
            SparseValue& whole =
                gradients.try_emplace(task.tensor, nothing_of(task.tensor)).first->second;
            const SparseValue here = find(TaskId(t), task.tensor, true);
            for (const BufferId b : tasks_.writes[t]) {
                const Buffer& made = tasks_.buffers[b.index()];
                if (made.gradient || made.region < 0) continue;
                for_each_element((*tasks_.regions)[made.region], graph_.tensor(task.tensor).shape,
                                 [&](std::size_t i) {
                                     if (here.knows(i)) whole.set(i, here.data[i]);
                                 });
            }
        }
        std::int64_t norm = 0;
        for (const auto& [tensor, gradient] : gradients) {
            for (std::size_t i = 0; i < gradient.data.size(); ++i) {
                if (!gradient.knows(i)) fail("lacks a gradient for the norm");
                norm = modulo(norm + modulo(gradient.data[i] * gradient.data[i]));
            }
        }
        norm_ = norm;
    }

    void run_update(const Task& task) {
        const bool clips = problem_.policy().clip_norm > 0;
        if (clips && !norm_) fail("updates before the norm is known");
        const SparseValue gradient = find(at_, task.tensor, true);
        for (const BufferId b : writes()) {
            const std::size_t buffer = b.index();
            if (tasks_.buffers[buffer].gradient) continue;
            write(buffer, [&](std::size_t i) {
                if (!gradient.knows(i)) fail("lacks a gradient");
                return source(task.tensor, i) - modulo(gradient.data[i] * norm_.value_or(1));
            });
        }
    }

    static std::int64_t joined(Combine combine, std::int64_t a, std::int64_t b) {
        if (combine != Combine::none) return modulo(combined(combine, a, b));
        if (a != b) fail("moves two values of one element");
        return a;
    }

    /// Communication and sums: every element is the combination of what the task reads at its
    /// place.
    void combine(const Task& task) {
        const std::vector<std::size_t> from = reads(at_);
        for (const BufferId b : writes()) {
            const TensorId t = tasks_.buffers[b.index()].tensor;
            write(b.index(), [&](std::size_t i) {
                std::optional<std::int64_t> sum;
                for (const std::size_t r : from) {
                    if (tasks_.buffers[r].tensor != t || !values_[r].knows(i)) continue;
                    sum = sum ? joined(task.combine, *sum, values_[r].data[i]) : values_[r].data[i];
                }
                if (!sum && !(task.gradient && gaps_.has(t, i))) {
                    fail("gives element " + std::to_string(i) + " out of nothing");
                }
                return sum.value_or(0);
            });
        }
    }

    /// Every piece of a trained parameter must have been written anew, and replicas agree.
    void collect_parameters() {
        std::map<std::uint32_t, std::vector<std::vector<char>>> written;
        for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
            const Buffer& buffer = tasks_.buffers[b];
            const bool of_parameter =
                graph_.tensor(buffer.tensor).role == graph::TensorRole::parameter;
            if (!of_parameter || buffer.gradient || buffer.message || !buffer.writer.valid())
                continue;
            const Task& writer = tasks_.tasks[buffer.writer.index()];
            if (writer.kind != TaskKind::update && !writer.updated) continue;
            const graph::Tensor& tensor = graph_.tensor(buffer.tensor);
            auto& devices = written[buffer.tensor.value];
            devices.resize(static_cast<std::size_t>(tasks_.device_count));
            auto& here = devices[static_cast<std::size_t>(buffer.device)];
            here.resize(static_cast<std::size_t>(tensor.elements()), 0);
            SparseValue& parameter =
                result_.parameters.emplace(buffer.tensor.value, nothing_of(buffer.tensor))
                    .first->second;
            for (std::size_t i = 0; i < values_[b].data.size(); ++i) {
                if (!values_[b].knows(i)) continue;
                if (parameter.knows(i) && parameter.data[i] != values_[b].data[i]) {
                    fail("replicas of '" + tensor.name + "' differ");
                }
                parameter.set(i, values_[b].data[i]);
                here[i] = 1;
            }
        }
        for (const Buffer& buffer : tasks_.buffers) {
            const auto devices = written.find(buffer.tensor.value);
            if (buffer.writer.valid() || buffer.region < 0 || devices == written.end()) continue;
            const auto& here = devices->second[static_cast<std::size_t>(buffer.device)];
            const graph::Tensor& tensor = graph_.tensor(buffer.tensor);
            for_each_element((*tasks_.regions)[buffer.region], tensor.shape, [&](std::size_t i) {
                if (here.empty() || here[i] == 0) {
                    fail("a replica of '" + tensor.name + "' keeps its old value");
                }
            });
        }
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    const TaskGraph& tasks_;
    const InterpreterOptions& options_;
    Gaps gaps_;
    std::vector<SparseValue> values_;
    std::map<std::vector<std::int64_t>, TaskId> forward_;
    std::optional<std::int64_t> norm_;  ///< squared, of all gradients
    Interpretation result_;
    TaskId at_;
};

}  // namespace

std::int64_t noise_of_source(TensorId t, std::size_t element) {
    return noise(t.value, static_cast<std::int64_t>(element));
}

std::int64_t noise_of_loss(TensorId t, std::size_t element) {
    return noise(1'000 + t.value, static_cast<std::int64_t>(element));
}

Interpretation interpret(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks,
                         const std::vector<TaskId>& order, const InterpreterOptions& options) {
    return Interpreter(problem, strategy, tasks, options).run(order);
}

Interpretation interpreted(const Problem& problem, const Strategy& strategy,
                           const InterpreterOptions& options) {
    const TaskGraph tasks = lower(problem, strategy);
    return interpret(problem, strategy, tasks, simulate(tasks, Scheduler::pct).commit_order,
                     options);
}

}  // namespace partita::plan
