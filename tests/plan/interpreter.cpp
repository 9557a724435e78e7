// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/interpreter.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "plan/batch.h"
#include "plan/layout.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::OpRule;
using graph::Positions;
using graph::Range;
using graph::TensorId;

constexpr std::int64_t kPrime = 1'000'003;

std::int64_t modulo(std::int64_t value) {
    return (value % kPrime + kPrime) % kPrime;
}

std::int64_t noise(std::int64_t a, std::int64_t b) {
    std::uint64_t x = static_cast<std::uint64_t>(a) * 0x9E3779B97F4A7C15U +
                      static_cast<std::uint64_t>(b) * 0xBF58476D1CE4E5B9U + 1;
    x = (x ^ (x >> 31U)) * 0x94D049BB133111EBU;
    return static_cast<std::int64_t>((x ^ (x >> 29U)) % 1000U);
}

SparseValue unknown(const graph::Tensor& tensor) {
    const auto size = static_cast<std::size_t>(tensor.elements());
    return {std::vector<std::int64_t>(size, 0), std::vector<char>(size, 0)};
}

/// Calls `visit(index in the whole tensor)` for the elements of a region.
void for_each_element(const graph::Region& region, const graph::Shape& shape,
                      const std::function<void(std::size_t)>& visit, std::size_t dim = 0,
                      std::int64_t index = 0) {
    if (dim == shape.size()) {
        visit(static_cast<std::size_t>(index));
        return;
    }
    for (const Range range : region.dims[dim]) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            for_each_element(region, shape, visit, dim + 1, index * shape[dim] + i);
        }
    }
}

/// The elements of a tensor that one point of an op's loop nest touches.
std::vector<std::size_t> elements_at(const OpRule& rule, const graph::TensorRule& tensor,
                                     const graph::Shape& shape,
                                     const std::vector<std::int64_t>& point) {
    std::vector<std::size_t> elements{0};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const graph::DimRule& dim = tensor.dims[d];
        Range range{0, shape[d]};
        if (dim.window) {
            const std::int64_t i = point[static_cast<std::size_t>(dim.factors[0])];
            range = operand_range(*dim.window, {i, i + 1}, shape[d]);
        } else if (!dim.factors.empty()) {
            std::int64_t i = 0;
            for (const int f : dim.factors) {
                i = i * rule.factors[static_cast<std::size_t>(f)].extent +
                    point[static_cast<std::size_t>(f)];
            }
            range = {i, i + 1};
        }
        std::vector<std::size_t> next;
        for (const std::size_t element : elements) {
            for (std::int64_t i = range.begin; i < range.end; ++i) {
                next.push_back(element * static_cast<std::size_t>(shape[d]) +
                               static_cast<std::size_t>(i));
            }
        }
        elements = std::move(next);
    }
    return elements;
}

void for_each_point(const graph::Box& box, std::vector<std::int64_t>& point,
                    const std::function<void()>& visit, std::size_t f = 0) {
    if (f == box.size()) {
        visit();
        return;
    }
    for (const Range range : box[f]) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            point[f] = i;
            for_each_point(box, point, visit, f + 1);
        }
    }
}

class Interpreter {
public:
    Interpreter(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks)
        : problem_(problem),
          graph_(problem.graph()),
          strategy_(strategy),
          tasks_(tasks),
          values_(tasks.buffers.size()) {}

    Interpretation run(const std::vector<TaskId>& order) {
        for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
            const Buffer& buffer = tasks_.buffers[b];
            if (buffer.writer >= 0 || buffer.region < 0) continue;
            values_[b] = unknown(graph_.tensor(buffer.tensor));
            write(b, [&](std::size_t i) { return source(buffer.tensor, i); });
        }
        for (const TaskId id : order) {
            at_ = id;
            run_task(tasks_.tasks[static_cast<std::size_t>(id)]);
        }
        collect_parameters();
        return std::move(result_);
    }

private:
    [[noreturn]] void fail(const std::string& what) const {
        throw std::logic_error(task_name(problem_, tasks_.tasks[static_cast<std::size_t>(at_)]) +
                               ": " + what);
    }

    static std::int64_t source(TensorId t, std::size_t i) {
        return noise(t.value, static_cast<std::int64_t>(i));
    }

    void write(std::size_t buffer, const std::function<std::int64_t(std::size_t)>& value) {
        const Buffer& b = tasks_.buffers[buffer];
        if (b.region < 0) return;
        const graph::Tensor& tensor = graph_.tensor(b.tensor);
        values_[buffer] = unknown(tensor);
        for_each_element(tasks_.regions[b.region], tensor.shape, [&](std::size_t i) {
            values_[buffer].data[i] = modulo(value(i));
            values_[buffer].known[i] = 1;
        });
    }

    /// The buffers whose values a task reads: those that only keep a view's memory are left out.
    [[nodiscard]] std::vector<std::size_t> reads(TaskId task) const {
        std::vector<std::size_t> all;
        const auto listed = tasks_.reads[static_cast<std::size_t>(task)];
        for (const std::int32_t b : listed) {
            const bool is_root = std::any_of(listed.begin(), listed.end(), [&](std::int32_t v) {
                return tasks_.buffers[static_cast<std::size_t>(v)].root == b;
            });
            if (!is_root) all.push_back(static_cast<std::size_t>(b));
        }
        return all;
    }

    /// What a task finds of a tensor (or of its gradient) in what it reads.
    [[nodiscard]] SparseValue find(TaskId task, TensorId t, bool gradient) const {
        SparseValue found = unknown(graph_.tensor(t));
        for (const std::size_t b : reads(task)) {
            const Buffer& buffer = tasks_.buffers[b];
            if (buffer.tensor != t || buffer.gradient != gradient) continue;
            for (std::size_t i = 0; i < found.data.size() && i < values_[b].data.size(); ++i) {
                if (values_[b].known[i] == 0) continue;
                if (found.known[i] != 0 && found.data[i] != values_[b].data[i]) {
                    fail("reads two values of '" + graph_.tensor(t).name + "'");
                }
                found.data[i] = values_[b].data[i];
                found.known[i] = 1;
            }
        }
        return found;
    }

    void run_task(const Task& task) {
        switch (task.kind) {
        case TaskKind::forward:
            forward_[key(task)] = at_;
            run_forward(task);
            break;
        case TaskKind::backward: run_backward(task); break;
        case TaskKind::loss: run_loss(task); break;
        case TaskKind::update: run_update(task); break;
        case TaskKind::accumulate:
        case TaskKind::copy:
        case TaskKind::collective: combine(); break;
        }
    }

    static std::vector<std::int64_t> key(const Task& task) {
        return {task.op.value, task.part, task.micro_batch};
    }

    [[nodiscard]] graph::Box box_of(const Task& task) const {
        const int micro_batches = strategy_.policy.micro_batches;
        const graph::Box base =
            micro_batch_box(problem_, task.op, micro_batches, std::max(task.micro_batch, 0));
        return Parts(problem_.rule(task.op), strategy_.config(task.op), base)
            .box(std::max(task.part, 0));
    }

    /// One point: operands with their elements, the sum of g over them, and what multiplies them.
    struct Operand {
        std::vector<std::size_t> elements;
        std::int64_t sum = 0;
        bool present = false;
    };

    Operand operand_at(const OpRule& rule, const graph::Op& op, std::size_t i,
                       const SparseValue& value, const std::vector<std::int64_t>& point) const {
        Operand operand;
        operand.elements =
            elements_at(rule, rule.operands[i], graph_.tensor(op.inputs[i]).shape, point);
        operand.present = std::any_of(value.known.begin(), value.known.end(),
                                      [](char known) { return known != 0; });
        if (!operand.present) return operand;
        for (const std::size_t e : operand.elements) {
            if (value.known[e] == 0) {
                fail("lacks element " + std::to_string(e) + " of operand " + std::to_string(i));
            }
            const std::int64_t x = value.data[e];
            operand.sum = modulo(operand.sum + (rule.operands[i].linear ? x : x * x));
        }
        return operand;
    }

    [[nodiscard]] static bool is_first_point(const OpRule& rule,
                                             const std::vector<std::int64_t>& point) {
        for (std::size_t f = 0; f < point.size(); ++f) {
            if (rule.factors[f].reduction && point[f] != 0) return false;
        }
        return true;
    }

    /// The value at a point, and in `slope` how it changes with each operand's sum.
    static std::int64_t value_at(const OpRule& rule, const std::vector<Operand>& operands,
                                 const std::vector<std::int64_t>& point,
                                 std::vector<std::int64_t>& slope) {
        const bool first = is_first_point(rule, point);
        slope.assign(operands.size(), 0);
        std::int64_t product = 1;
        std::int64_t once = 0;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const bool added = rule.additive || rule.operands[i].apply_once;
            if (added) {
                const bool counts = rule.additive || first;
                slope[i] = counts && operands[i].present ? 1 : 0;
                once = modulo(once + slope[i] * operands[i].sum);
                continue;
            }
            std::int64_t others = 1;
            for (std::size_t j = 0; j < operands.size(); ++j) {
                if (j != i && !rule.operands[j].apply_once) {
                    others = modulo(others * operands[j].sum);
                }
            }
            slope[i] = others;
            product = modulo(product * operands[i].sum);
        }
        return modulo(once + (rule.additive ? 0 : product));
    }

    std::vector<SparseValue> operands_of(const graph::Op& op, TaskId forward) const {
        std::vector<SparseValue> operands;
        for (const TensorId t : op.inputs) {
            operands.push_back(t.valid() ? find(forward, t, false) : SparseValue{});
        }
        return operands;
    }

    void run_forward(const Task& task) {
        const graph::Op& op = graph_.op(task.op);
        const OpRule& rule = problem_.rule(task.op);
        const std::vector<SparseValue> values = operands_of(op, at_);
        std::vector<SparseValue> results;
        for (const TensorId t : op.outputs) results.push_back(unknown(graph_.tensor(t)));
        std::vector<std::int64_t> point(rule.factors.size());
        for_each_point(box_of(task), point, [&] {
            std::vector<Operand> operands;
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                operands.push_back(op.inputs[i].valid() ? operand_at(rule, op, i, values[i], point)
                                                        : Operand{{}, 1, false});
            }
            std::vector<std::int64_t> slope;
            const std::int64_t value = value_at(rule, operands, point, slope);
            for (std::size_t r = 0; r < results.size(); ++r) {
                const auto& shape = graph_.tensor(op.outputs[r]).shape;
                for (const std::size_t e : elements_at(rule, rule.results[r], shape, point)) {
                    results[r].data[e] = modulo(results[r].data[e] + value * weight(e));
                }
            }
        });
        for (const std::int32_t b : tasks_.writes[static_cast<std::size_t>(at_)]) {
            const auto buffer = static_cast<std::size_t>(b);
            for (std::size_t r = 0; r < results.size(); ++r) {
                if (tasks_.buffers[buffer].gradient ||
                    tasks_.buffers[buffer].tensor != op.outputs[r]) {
                    continue;
                }
                write(buffer, [&](std::size_t i) { return results[r].data[i]; });
            }
        }
    }

    /// Elements of a result differ even where the rule says nothing of its dims.
    static std::int64_t weight(std::size_t element) {
        return 1 + static_cast<std::int64_t>(element % 7);
    }

    void run_backward(const Task& task) {
        const graph::Op& op = graph_.op(task.op);
        const OpRule& rule = problem_.rule(task.op);
        const auto forward = forward_.find(key(task));
        if (forward == forward_.end()) fail("runs before its forward");
        const std::vector<SparseValue> values = operands_of(op, forward->second);
        std::vector<SparseValue> upstream;
        for (const TensorId t : op.outputs) upstream.push_back(find(at_, t, true));
        std::vector<SparseValue> gradients;
        for (const TensorId t : op.inputs) {
            gradients.push_back(t.valid() ? unknown(graph_.tensor(t)) : SparseValue{});
        }
        std::vector<std::int64_t> point(rule.factors.size());
        for_each_point(box_of(task), point, [&] {
            std::int64_t up = 0;
            for (std::size_t r = 0; r < upstream.size(); ++r) {
                if (!problem_.has_gradient(op.outputs[r])) continue;
                const auto& shape = graph_.tensor(op.outputs[r]).shape;
                for (const std::size_t e : elements_at(rule, rule.results[r], shape, point)) {
                    if (upstream[r].known[e] == 0) fail("lacks a gradient of its result");
                    up = modulo(up + upstream[r].data[e] * weight(e));
                }
            }
            std::vector<Operand> operands;
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                operands.push_back(op.inputs[i].valid() ? operand_at(rule, op, i, values[i], point)
                                                        : Operand{{}, 1, false});
            }
            std::vector<std::int64_t> slope;
            static_cast<void>(value_at(rule, operands, point, slope));
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                for (const std::size_t e : operands[i].elements) {
                    if (!operands[i].present) break;
                    const std::int64_t x = rule.operands[i].linear ? 1 : 2 * values[i].data[e];
                    std::int64_t& sum = gradients[i].data[e];
                    sum = modulo(sum + modulo(up * slope[i]) * modulo(x));
                }
            }
        });
        for (const std::int32_t b : tasks_.writes[static_cast<std::size_t>(at_)]) {
            const auto buffer = static_cast<std::size_t>(b);
            const auto operand = static_cast<std::size_t>(tasks_.buffers[buffer].operand);
            write(buffer, [&](std::size_t i) { return gradients[operand].data[i]; });
        }
    }

    void run_loss(const Task& task) {
        const TensorId t = graph_.op(task.op).inputs[0];
        const SparseValue seen = find(at_, t, false);
        const auto [it, is_new] = result_.outputs.emplace(t.value, unknown(graph_.tensor(t)));
        for (std::size_t i = 0; i < seen.data.size(); ++i) {
            if (seen.known[i] == 0) continue;
            if (it->second.known[i] != 0 && it->second.data[i] != seen.data[i]) {
                fail("sees another output than its replica");
            }
            it->second.data[i] = seen.data[i];
            it->second.known[i] = 1;
        }
        for (const std::int32_t b : tasks_.writes[static_cast<std::size_t>(at_)]) {
            write(static_cast<std::size_t>(b), [&](std::size_t i) {
                if (seen.known[i] == 0) fail("gives the gradient of an output it has not seen");
                return noise(1'000 + t.value, static_cast<std::int64_t>(i)) * seen.data[i];
            });
        }
    }

    void run_update(const Task& task) {
        const SparseValue gradient = find(at_, task.tensor, true);
        for (const std::int32_t b : tasks_.writes[static_cast<std::size_t>(at_)]) {
            const auto buffer = static_cast<std::size_t>(b);
            if (tasks_.buffers[buffer].gradient) continue;
            write(buffer, [&](std::size_t i) {
                if (gradient.known[i] == 0) fail("lacks a gradient");
                return source(task.tensor, i) - gradient.data[i];
            });
        }
    }

    /// Communication and sums: every element is the sum of what the task reads at its position.
    void combine() {
        const std::vector<std::size_t> from = reads(at_);
        for (const std::int32_t b : tasks_.writes[static_cast<std::size_t>(at_)]) {
            write(static_cast<std::size_t>(b), [&](std::size_t i) {
                std::int64_t sum = 0;
                bool any = false;
                for (const std::size_t r : from) {
                    if (values_[r].known.empty() || values_[r].known[i] == 0) continue;
                    sum += values_[r].data[i];
                    any = true;
                }
                if (!any) fail("gives element " + std::to_string(i) + " out of nothing");
                return sum;
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
            if (!of_parameter || buffer.gradient || buffer.writer < 0) continue;
            const Task& writer = tasks_.tasks[static_cast<std::size_t>(buffer.writer)];
            if (writer.kind != TaskKind::update && !writer.updated) continue;
            const graph::Tensor& tensor = graph_.tensor(buffer.tensor);
            auto& devices = written[buffer.tensor.value];
            devices.resize(static_cast<std::size_t>(tasks_.device_count));
            auto& here = devices[static_cast<std::size_t>(buffer.device)];
            here.resize(static_cast<std::size_t>(tensor.elements()), 0);
            const auto [it, is_new] =
                result_.parameters.emplace(buffer.tensor.value, unknown(tensor));
            for (std::size_t i = 0; i < values_[b].data.size(); ++i) {
                if (values_[b].known[i] == 0) continue;
                if (it->second.known[i] != 0 && it->second.data[i] != values_[b].data[i]) {
                    throw std::logic_error("replicas of '" + tensor.name + "' differ");
                }
                it->second.data[i] = values_[b].data[i];
                it->second.known[i] = 1;
                here[i] = 1;
            }
        }
        for (const Buffer& buffer : tasks_.buffers) {
            const auto devices = written.find(buffer.tensor.value);
            if (buffer.writer >= 0 || buffer.region < 0 || devices == written.end()) continue;
            const auto& here = devices->second[static_cast<std::size_t>(buffer.device)];
            const graph::Tensor& tensor = graph_.tensor(buffer.tensor);
            for_each_element(tasks_.regions[buffer.region], tensor.shape, [&](std::size_t i) {
                if (here.empty() || here[i] == 0) {
                    throw std::logic_error("a replica of '" + tensor.name +
                                           "' keeps its old value");
                }
            });
        }
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    const TaskGraph& tasks_;
    std::vector<SparseValue> values_;
    std::map<std::vector<std::int64_t>, TaskId> forward_;
    Interpretation result_;
    TaskId at_ = 0;
};

}  // namespace

Interpretation interpret(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks,
                         const std::vector<TaskId>& order) {
    return Interpreter(problem, strategy, tasks).run(order);
}

}  // namespace partita::plan
