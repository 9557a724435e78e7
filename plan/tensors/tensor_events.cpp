// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_events.h"

#include <algorithm>
#include <map>
#include <utility>

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using Kind = TensorEvent::Kind;

bool saves_operand(const graph::OpRule& rule, std::size_t operand) {
    return operand >= 64 || ((rule.saves_operands >> operand) & 1U) != 0;
}

bool saves_result(const graph::OpRule& rule, std::size_t result) {
    return result >= 64 || ((rule.saves_results >> result) & 1U) != 0;
}

namespace {

/// Goes through the iteration as lowering does.
class Listing {
public:
    Listing(const Problem& problem, int micro_batches)
        : problem_(problem),
          graph_(problem.graph()),
          rows_(problem, micro_batches),
          events_(graph_.tensor_count() * static_cast<std::size_t>(micro_batches)) {}

    std::vector<TensorEvents> run() {
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
        return std::move(events_);
    }

private:
    void number_alike() {
        std::map<std::vector<std::int64_t>, std::int32_t> numbers;
        for (TensorEvents& of : events_) {
            if (of.events.empty()) continue;
            const auto next = static_cast<std::int32_t>(numbers.size());
            of.alike = numbers.emplace(traits_of(of), next).first->second;
        }
    }

    /// All that its tasks depend on, beside layouts.
    [[nodiscard]] std::vector<std::int64_t> traits_of(const TensorEvents& of) const {
        const graph::Tensor& tensor = graph_.tensor(of.tensor);
        const Op& producer = graph_.op(tensor.producer);
        std::vector<std::int64_t> traits{static_cast<std::int64_t>(tensor.dtype),
                                         static_cast<std::int64_t>(producer.kind),
                                         // Given prices are of one op.
                                         producer.given ? std::int64_t{tensor.producer.value} : -1,
                                         problem_.is_resident(of.tensor) ? 1 : 0, of.label,
                                         static_cast<std::int64_t>(tensor.shape.size())};
        traits.insert(traits.end(), tensor.shape.begin(), tensor.shape.end());
        for (const TensorEvent& event : of.events) {
            const bool output = graph_.op(event.op).kind == OpKind::output;
            traits.insert(traits.end(), {static_cast<std::int64_t>(event.kind), event.block,
                                         event.operand, event.micro_batch, output ? 1 : 0});
        }
        return traits;
    }

    void add(TensorId t, Kind kind, std::size_t operand, OpId op, int micro_batch,
             std::int32_t block) {
        TensorEvents& of = events_[rows_.row(t, micro_batch)];
        of.tensor = t;
        of.label = rows_.label(t, micro_batch);
        of.events.push_back({.kind = kind,
                             .block = block,
                             .operand = static_cast<std::int32_t>(operand),
                             .micro_batch = micro_batch,
                             .op = op});
    }

    std::int32_t block(TensorId t, int micro_batch, OpId op, bool backward) {
        std::vector<PartBlock>& blocks = events_[rows_.row(t, micro_batch)].blocks;
        const PartBlock block{op, rows_.own(op, micro_batch), backward};
        // All that a block does with a tensor follows each other.
        if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
        return static_cast<std::int32_t>(blocks.size()) - 1;
    }

    void forward(OpId id, int m) {
        const Op& op = graph_.op(id);
        const bool computes = op.kind == OpKind::compute;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid()) continue;
            add(t, Kind::forward_use, i, id, m, computes ? block(t, m, id, false) : -1);
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            add(t, Kind::home, i, id, m, computes ? block(t, m, id, false) : -1);
        }
    }

    void backward(OpId id, int m) {
        const Op& op = graph_.op(id);
        if (op.kind == OpKind::parameter) {
            parameter(id, m);
        } else if (!problem_.has_backward(id)) {
            return;
        } else if (!rows_.ends_in(id, m)) {
            for (const TensorId t : op.outputs) {
                if (problem_.has_gradient(t)) add(t, Kind::fold, 0, id, m, -1);
            }
        } else if (op.kind == OpKind::output) {
            uses_and_gives(id, m, true);
        } else {
            const int own = rows_.own(id, m);
            for (std::size_t i = 0; i < op.outputs.size(); ++i) {
                const TensorId t = op.outputs[i];
                if (!problem_.has_gradient(t)) continue;
                add(t, Kind::take, i, id, own, block(t, own, id, true));
            }
            uses_and_gives(id, own, false);
        }
    }

    void uses_and_gives(OpId id, int m, bool loss) {
        const Op& op = graph_.op(id);
        const graph::OpRule& rule = problem_.rule(id);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid() || (!loss && !saves_operand(rule, i))) continue;
            add(t, Kind::backward_use, i, id, m, block(t, m, id, true));
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (!saves_result(rule, i)) continue;
            const TensorId t = op.outputs[i];
            add(t, Kind::result_use, i, id, m, block(t, m, id, true));
        }
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid() || (!loss && !problem_.has_gradient(t))) continue;
            add(t, Kind::give, i, id, m, block(t, m, id, true));
        }
    }

    void parameter(OpId id, int m) {
        const TensorId t = graph_.op(id).outputs[0];
        if (!problem_.has_gradient(t)) return;
        add(t, Kind::parameter, 0, id, m, -1);
        if (m + 1 == rows_.micro_batches()) add(t, Kind::update, 0, id, m, -1);
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    MicroBatchRows rows_;
    std::vector<TensorEvents> events_;
};

}  // namespace

std::vector<TensorEvents> tensor_events(const Problem& problem, int micro_batches) {
    return Listing(problem, micro_batches).run();
}

}  // namespace partita::plan
