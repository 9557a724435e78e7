// SPDX-License-Identifier: Apache-2.0
//
// What happens to a tensor in one iteration, in order (iteration_script.h): who makes it, who reads
// it, who contributes to its gradient and who collects it. Follows from the graph alone; where all
// that happens is what strategies say.
//
//     w [a parameter], read by X:   produce  forward X  backward X  contribute X  parameter  update
//     t, which may be recomputed:   produce  forward X  [reproduce]  backward X  contribute X  collect
//
// A tensor that differs between micro-batches has events of its own for each of them; any other has
// them for all micro-batches in one list. Source: RULES.md 10-17.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ids.h"
#include "plan/problem/graph_facts.h"
#include "plan/strategy/pass.h"

namespace partita::plan {

/// All parts of an op in one pass of one micro-batch. A loss is the backward of an output.
struct PartBlock {
    graph::OpId op;
    std::int32_t micro_batch = 0;  ///< 0 of ops that are the same in all
    Pass pass = Pass::forward;
    friend auto operator<=>(const PartBlock&, const PartBlock&) = default;
};

struct TensorEvent {
    enum class Kind : std::uint8_t {
        produce,         ///< lies where its producer leaves it
        forward_use,     ///< an operand of a forward, or what an output gives
        backward_use,    ///< an operand of a backward, or of a loss
        result_use,      ///< a result that the producer's backward needs
        contribute,      ///< a backward contributes to the gradient of an operand; to a parameter's
                         ///< what micro-batches contribute is added up at once
        accumulate,      ///< gradients are added up between micro-batches
        collect,         ///< the producer's backward needs the gradient
        parameter,       ///< a micro-batch adds to a parameter's gradient
        update,          ///< the parameter changes
        await_gradient,  ///< what is recomputed waits until consumers have contributed to it
        recompute_use,   ///< an operand of a forward that runs again
        reproduce,       ///< lies again where its producer leaves it
        await_backward,  ///< what is gathered again waits for the backward before
        gradient_use     ///< the gradient that the producer's backward had, for that of its weights
    };
    Kind kind = Kind::produce;
    Pass pass = Pass::forward;  ///< of the op
    std::int32_t block = -1;    ///< of TensorEvents::blocks; -1: no parts are concerned
    std::int32_t operand = -1;  ///< of the consumer; of the producer which result
    std::int32_t micro_batch = 0;
    graph::OpId op;
    std::uint32_t step = 0;  ///< of the script
    /// Happens only if that is decided of the op; none: always.
    Recompute choice = Recompute::none;
    /// A use: finds the value that was recomputed, if it was.
    bool finds_recomputed = false;
};

struct TensorEvents {
    graph::TensorId tensor;
    std::int32_t label = -1;  ///< micro-batch in names; -1: there is one, or it is the same in all
    /// Tensors of one number are alike: of equal shapes and prices, and the same happens to them.
    /// In equal layouts they have equal tasks.
    std::int32_t alike = -1;
    std::vector<PartBlock> blocks;
    std::vector<TensorEvent> events;
};

/// Micro-batches of tensors and ops, and blocks of parts, by number: row of the tensor in
/// micro-batch m.
class MicroBatchRows {
public:
    MicroBatchRows(const GraphFacts& facts, int micro_batches)
        : facts_(facts), micro_batches_(micro_batches) {}

    template <class Id>
    [[nodiscard]] int own(Id of, int micro_batch) const {
        return facts_.is_batched(of) ? micro_batch : 0;
    }
    template <class Id>
    [[nodiscard]] std::size_t row(Id of, int micro_batch) const {
        return of.index() * static_cast<std::size_t>(micro_batches_) +
               static_cast<std::size_t>(own(of, micro_batch));
    }
    /// What tasks and buffers say of their micro-batch.
    template <class Id>
    [[nodiscard]] int label(Id of, int micro_batch) const {
        return micro_batches_ > 1 && facts_.is_batched(of) ? micro_batch : -1;
    }
    [[nodiscard]] bool runs_in(graph::OpId op, int micro_batch) const {
        return facts_.is_batched(op) || micro_batch == 0;
    }
    /// The last micro-batch in which something of the op happens.
    [[nodiscard]] bool ends_in(graph::OpId op, int micro_batch) const {
        return facts_.is_batched(op) || micro_batch == micro_batches_ - 1;
    }
    [[nodiscard]] int micro_batches() const { return micro_batches_; }

    // By block: rows of ops, and the passes of each.
    [[nodiscard]] std::size_t row(const PartBlock& block) const {
        return pass_rows().row(row(block.op, block.micro_batch), block.pass);
    }
    [[nodiscard]] PartBlock block(std::size_t row) const {
        const auto m = static_cast<std::size_t>(micro_batches_);
        const auto [op, pass] = pass_rows().at(row);
        return {graph::OpId(op / m), static_cast<std::int32_t>(op % m), pass};
    }
    [[nodiscard]] std::size_t blocks() const { return pass_rows().size(); }
    /// Those that there are.
    [[nodiscard]] std::span<const Pass> passes() const { return pass_rows().passes(); }

private:
    [[nodiscard]] PassRows pass_rows() const {
        return facts_.passes(facts_.graph().op_count() * static_cast<std::size_t>(micro_batches_));
    }

    const GraphFacts& facts_;
    int micro_batches_;
};

}  // namespace partita::plan
