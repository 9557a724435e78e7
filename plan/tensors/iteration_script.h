// SPDX-License-Identifier: Apache-2.0
//
// The order of an iteration, stated once: which op is visited when, what happens to the tensors
// around its parts before they run, and what after. Lowering walks it, and what is lowered a change
// at a time is numbered by it.
//
//     forward X, micro-batch 0     forward_use of its operands  │ parts │  produce its results
//     ...                          for all micro-batches, ops in order
//     backward X, micro-batch 0    collect its results' gradients,
//                                  backward_use, result_use     │ parts │  contribute to its operands' gradients;
//                                                                          those of parameters are added up here
//     ...                          for all micro-batches, ops against their order; parameters come to their turn with
//                                  parameter, and after the last micro-batch update
//     weights X                    gradient_use of its results, backward_use │ parts │ contribute: right after the
//                                  backward of what finds these in a pass of its own (GraphFacts::splits_backward)
//                                  with Policy::gather_again, before backward_use: await_backward, for each op that
//                                  reads what X makes
//     recompute X                  await_gradient, recompute_use of its operands │ parts │ reproduce its results
//                                  the ops of a region in their order, before the first backward that needs them;
//                                  only if that is decided of X (recompute_regions.h)
//
// An op that is the same in all micro-batches goes forward in the first and backward in the last
// one; until then gradients of its results are added up between micro-batches (accumulate). Source:
// RULES.md 10-17; recompute_regions.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "plan/strategy/pass.h"
#include "plan/tensors/tensor_events.h"

namespace partita::plan {

/// Of IterationScript::tensors.
struct EventId {
    std::size_t row = 0;
    std::size_t event = 0;
};

/// A visit of an op.
struct ScriptStep {
    graph::OpId op;
    Pass pass = Pass::forward;
    std::int32_t micro_batch =
        0;  ///< of the iteration; an op that is the same in all has parts of micro-batch 0
    bool has_parts = false;
    Recompute choice = Recompute::none;  ///< happens only if that is decided of the op
    std::uint32_t begin = 0;             ///< of IterationScript::events, those before the parts
    std::uint32_t parts = 0;             ///< end of these, and begin of those after
    std::uint32_t end = 0;
};

struct IterationScript {
    std::vector<ScriptStep> steps;
    std::vector<EventId> events;  ///< of all steps
    /// By row (MicroBatchRows::row); rows of later micro-batches of a tensor that has none are
    /// empty.
    std::vector<TensorEvents> tensors;

    /// What parts of the step find, in the order of operands and results.
    [[nodiscard]] std::span<const EventId> before_parts(const ScriptStep& step) const {
        return {events.data() + step.begin, events.data() + step.parts};
    }
    [[nodiscard]] std::span<const EventId> after_parts(const ScriptStep& step) const {
        return {events.data() + step.parts, events.data() + step.end};
    }
};

/// What an iteration is like, beside its ops.
struct IterationShape {
    int micro_batches = 1;
    bool gather_again = false;  ///< as Policy
    /// A tensor is alike in all micro-batches: LoweringCache::MicroBatches::shared.
    bool shared = false;
    friend auto operator<=>(const IterationShape&, const IterationShape&) = default;
};

IterationScript iteration_script(const Problem& problem, const IterationShape& shape);

/// No step has more events.
std::size_t most_events_of_a_step(const Problem& problem, bool gather_again);

}  // namespace partita::plan
