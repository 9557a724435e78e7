// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy_layouts.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using Kind = TensorEvent::Kind;

StrategyLayouts::StrategyLayouts(const Problem& problem, const Strategy& strategy,
                                 LayoutCache& cache)
    : problem_(problem),
      strategy_(strategy),
      cache_(cache),
      rows_(problem, strategy.policy.micro_batches),
      events_(cache.events(strategy.policy.micro_batches)),
      ops_(problem.graph().op_count() * static_cast<std::size_t>(rows_.micro_batches())),
      updates_(problem.graph().op_count()) {
    key_.micro_batches = strategy.policy.micro_batches;
    key_.optimizer = strategy.policy.optimizer;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) refresh(OpId(i));
}

void StrategyLayouts::refresh(OpId op) {
    const OpConfig& config = strategy_.config(op);
    for (int m = 0; m < rows_.micro_batches() && rows_.runs_in(op, m); ++m) {
        ops_[rows_.row(op, m)] = &cache_.of(op, config, rows_.micro_batches(), m);
    }
    if (problem_.graph().op(op).kind != OpKind::parameter) return;
    const OpConfig& update = strategy_.update(op).update;
    updates_[op.index()] =
        update.devices.empty() ? &of(op, 0) : &cache_.of(op, update, rows_.micro_batches(), 0);
}

std::int32_t StrategyLayouts::layout_at(const TensorEvent& event) const {
    const auto operand = static_cast<std::size_t>(event.operand);
    const OpLayouts& layouts = of(event.op, event.micro_batch);
    switch (event.kind) {
    case Kind::home: return layouts.results[operand];
    case Kind::forward_use:
    case Kind::backward_use: return layouts.operands[operand];
    case Kind::result_use:  // combined, where the parts' results are partial: RULES.md 12
    case Kind::take: return layouts.result_gradients[operand];
    case Kind::give: return layouts.operand_gradients[operand];
    case Kind::parameter:
    case Kind::update: return updates_[event.op.index()]->results[0];
    case Kind::fold: break;
    }
    return -1;
}

const TensorTasks& StrategyLayouts::tasks(std::size_t row) {
    const TensorEvents& events = events_[row];
    const UpdateConfig& update =
        strategy_.update(problem_.graph().tensor(events.tensor).producer);
    key_.refetch = update.refetch;
    key_.accumulate_locally = update.accumulate_locally;
    key_.layouts.clear();
    for (const TensorEvent& event : events.events) key_.layouts.push_back(layout_at(event));
    return cache_.tasks(row, key_);
}

}  // namespace partita::plan
