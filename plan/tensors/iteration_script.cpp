// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/iteration_script.h"

#include <algorithm>
#include <map>
#include <utility>

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using Kind = TensorEvent::Kind;

namespace {

class Writer {
public:
    Writer(const Problem& problem, const IterationShape& shape)
        : problem_(problem),
          graph_(problem.graph()),
          rows_(problem.facts(), shape.micro_batches),
          shape_(shape) {
        script_.tensors.resize(graph_.tensor_count() *
                               static_cast<std::size_t>(shape.micro_batches));
    }

    IterationScript write() {
        const bool training = problem_.mode() == Mode::training;
        for (int m = 0; m < rows_.micro_batches(); ++m) {
            for (std::size_t i = 0; i < graph_.op_count(); ++i) {
                if (rows_.runs_in(OpId(i), m)) forward(OpId(i), m);
            }
        }
        for (int m = 0; m < rows_.micro_batches() && training; ++m) {
            for (std::size_t i = graph_.op_count(); i-- > 0;) backward(OpId(i), m);
        }
        number_alike();
        return std::move(script_);
    }

private:
    void begin(OpId op, Pass pass, int micro_batch, bool has_parts) {
        const auto at = static_cast<std::uint32_t>(script_.events.size());
        script_.steps.push_back({.op = op,
                                 .pass = pass,
                                 .micro_batch = micro_batch,
                                 .has_parts = has_parts,
                                 .begin = at,
                                 .parts = at,
                                 .end = at});
    }
    /// Events so far are before the parts of the step, or there are no parts.
    void parts_here() {
        script_.steps.back().parts = static_cast<std::uint32_t>(script_.events.size());
    }

    void number_alike() {
        std::map<std::vector<std::int64_t>, std::int32_t> numbers;
        for (TensorEvents& of : script_.tensors) {
            if (of.events.empty()) continue;
            const auto next = static_cast<std::int32_t>(numbers.size());
            of.alike = numbers.emplace(traits_of(of), next).first->second;
        }
    }

    /// All that its tasks depend on, beside layouts.
    [[nodiscard]] std::vector<std::int64_t> traits_of(const TensorEvents& of) const {
        const graph::Tensor& tensor = graph_.tensor(of.tensor);
        const Op& producer = graph_.op(tensor.producer);
        // Where it differs between micro-batches all its events are of one.
        const bool shares = shape_.shared && of.label >= 0;
        std::vector<std::int64_t> traits{static_cast<std::int64_t>(tensor.dtype),
                                         static_cast<std::int64_t>(tensor.type_of(true)),
                                         static_cast<std::int64_t>(producer.kind),
                                         // Given prices are of one op.
                                         producer.given ? std::int64_t{tensor.producer.value} : -1,
                                         problem_.facts().is_resident(of.tensor) ? 1 : 0,
                                         shares ? 0 : of.label,
                                         static_cast<std::int64_t>(tensor.shape.size())};
        traits.insert(traits.end(), tensor.shape.begin(), tensor.shape.end());
        for (const TensorEvent& event : of.events) {
            const bool output = graph_.op(event.op).kind == OpKind::output;
            traits.insert(
                traits.end(),
                {static_cast<std::int64_t>(event.kind), static_cast<std::int64_t>(event.pass),
                 event.block, event.operand, shares ? 0 : event.micro_batch, output ? 1 : 0,
                 static_cast<std::int64_t>(event.choice), event.finds_recomputed ? 1 : 0});
        }
        return traits;
    }

    void add(TensorId t, Kind kind, std::size_t operand, OpId op, int micro_batch,
             std::int32_t block) {
        const std::size_t row = rows_.row(t, micro_batch);
        TensorEvents& of = script_.tensors[row];
        script_.events.push_back({row, of.events.size()});
        script_.steps.back().end = static_cast<std::uint32_t>(script_.events.size());
        of.tensor = t;
        of.label = rows_.label(t, micro_batch);
        of.events.push_back({.kind = kind,
                             .pass = script_.steps.back().pass,
                             .block = block,
                             .operand = static_cast<std::int32_t>(operand),
                             .micro_batch = micro_batch,
                             .op = op,
                             .step = static_cast<std::uint32_t>(script_.steps.size()) - 1,
                             .choice = script_.steps.back().choice,
                             .finds_recomputed = finds_recomputed(t, kind, op)});
    }

    /// Readers in the block of the producer find what was recomputed for them.
    [[nodiscard]] bool finds_recomputed(TensorId t, Kind kind, OpId op) const {
        const RecomputeRegions& regions = problem_.facts().recompute();
        const bool use =
            kind == Kind::recompute_use || kind == Kind::backward_use || kind == Kind::result_use;
        return use && regions.block_of(op) != nullptr &&
               regions.block_of(op) == regions.block_of(graph_.tensor(t).producer);
    }

    /// Of the step at hand, as `t` numbers it.
    std::int32_t block(TensorId t, int micro_batch) {
        const ScriptStep& step = script_.steps.back();
        return block(t, {step.op, rows_.own(step.op, micro_batch), step.pass}, micro_batch);
    }

    std::int32_t block(TensorId t, const PartBlock& block, int micro_batch) {
        std::vector<PartBlock>& blocks = script_.tensors[rows_.row(t, micro_batch)].blocks;
        // All that a block does with a tensor follows each other.
        if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
        return static_cast<std::int32_t>(blocks.size()) - 1;
    }

    void forward(OpId id, int m) {
        const Op& op = graph_.op(id);
        const bool computes = op.kind == OpKind::compute;
        begin(id, Pass::forward, m, computes);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid()) continue;
            add(t, Kind::forward_use, i, id, m, computes ? block(t, m) : -1);
        }
        parts_here();
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            add(t, Kind::produce, i, id, m, computes ? block(t, m) : -1);
        }
    }

    void backward(OpId id, int m) {
        const Op& op = graph_.op(id);
        if (op.kind == OpKind::parameter) {
            parameter(id, m);
        } else if (!problem_.facts().has_backward(id)) {
            return;
        } else if (!rows_.ends_in(id, m)) {
            begin(id, Pass::backward, m, false);
            for (const TensorId t : op.outputs) {
                if (problem_.facts().has_gradient(t)) add(t, Kind::accumulate, 0, id, m, -1);
            }
        } else if (op.kind == OpKind::output) {
            begin(id, Pass::backward, m, true);
            uses_and_gives(id, m, true);
        } else {
            for (const RecomputeRegion* region : problem_.facts().recompute().before(id)) {
                for (const OpId again : region->ops) recompute(again, *region, m);
            }
            begin(id, Pass::backward, m, true);
            gradients_of_results(Kind::collect, id, m);
            uses_and_gives(id, m, false);
            if (!problem_.facts().splits_backward(id)) return;
            // What the backward left: the gradients of weights.
            begin(id, Pass::weights, m, true);
            gradients_of_results(Kind::gradient_use, id, m);
            uses_and_gives(id, m, false);
        }
    }

    void gradients_of_results(Kind kind, OpId id, int m) {
        const Op& op = graph_.op(id);
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            if (problem_.facts().has_gradient(t)) add(t, kind, i, id, m, block(t, m));
        }
    }

    /// The forward of the op once more.
    void recompute(OpId id, const RecomputeRegion& region, int m) {
        const Op& op = graph_.op(id);
        begin(id, Pass::recompute, m, true);
        script_.steps.back().choice = region.choice;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (t.valid()) add(t, Kind::recompute_use, i, id, m, block(t, m));
        }
        const bool first = std::ranges::find(region.first, id) != region.first.end();
        if (first) {
            add(region.awaited, Kind::await_gradient, 0, id, m, block(region.awaited, m));
        }
        parts_here();
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            add(t, Kind::reproduce, i, id, m, block(t, m));
        }
    }

    [[nodiscard]] bool may_gather_again(TensorId t) const {
        return shape_.gather_again && problem_.facts().is_activation(t);
    }

    /// Of all that read what the op makes.
    void await_backwards(TensorId t, const Op& op, int m) {
        for (const TensorId result : op.outputs) {
            for (const graph::Use use : graph_.uses(result)) {
                if (!problem_.facts().has_backward(use.op)) continue;
                const PartBlock before{use.op, rows_.own(use.op, m), Pass::backward};
                add(t, Kind::await_backward, 0, use.op, m, block(t, before, m));
            }
        }
    }

    void uses_and_gives(OpId id, int m, bool loss) {
        const Op& op = graph_.op(id);
        const GraphFacts& facts = problem_.facts();
        const graph::OpRule& rule = facts.rule(id);
        const Pass pass = script_.steps.back().pass;
        const std::vector<char> wanted = facts.wanted(id, pass);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid() || (!loss && !facts.saves_operand(id, i, pass))) continue;
            if (may_gather_again(t)) await_backwards(t, op, m);
            add(t, Kind::backward_use, i, id, m, block(t, m));
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (!rule.saves_result(i)) continue;
            const TensorId t = op.outputs[i];
            add(t, Kind::result_use, i, id, m, block(t, m));
        }
        parts_here();
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (wanted[i] != 0)
                add(op.inputs[i], Kind::contribute, i, id, m, block(op.inputs[i], m));
        }
    }

    void parameter(OpId id, int m) {
        const TensorId t = graph_.op(id).outputs[0];
        if (!problem_.facts().has_gradient(t)) return;
        begin(id, Pass::backward, m, false);
        add(t, Kind::parameter, 0, id, m, -1);
        if (m + 1 == rows_.micro_batches()) add(t, Kind::update, 0, id, m, -1);
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    MicroBatchRows rows_;
    IterationShape shape_;
    IterationScript script_;
};

}  // namespace

IterationScript iteration_script(const Problem& problem, const IterationShape& shape) {
    return Writer(problem, shape).write();
}

std::size_t most_events_of_a_step(const Problem& problem, bool gather_again) {
    const graph::OpGraph& graph = problem.graph();
    std::size_t most = 2;  // of a parameter
    for (const Op& op : graph.ops()) {
        std::size_t readers = 0;
        for (const TensorId t : op.outputs) readers += graph.uses(t).size();
        const std::size_t awaited = gather_again ? op.inputs.size() * readers : 0;
        most = std::max(most, 2 * (op.inputs.size() + op.outputs.size()) + awaited);
    }
    return most;
}

}  // namespace partita::plan
