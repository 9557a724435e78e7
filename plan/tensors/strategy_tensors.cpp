// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/strategy_tensors.h"

#include <utility>

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using Kind = TensorEvent::Kind;

StrategyTensors::StrategyTensors(const Problem& problem, const Strategy& strategy,
                                 LoweringCache& cache)
    : problem_(problem),
      cache_(cache),
      rows_(problem.facts(), strategy.policy.micro_batches),
      script_(cache.script(strategy.policy.micro_batches, strategy.policy.gather_again)),
      ops_(problem.graph().op_count() * static_cast<std::size_t>(rows_.micro_batches())),
      updates_(problem.graph().op_count()),
      recompute_(problem.graph().op_count(), Recompute::none) {
    key_.micro_batches = strategy.policy.micro_batches;
    key_.gather_again = strategy.policy.gather_again;
    key_.optimizer = strategy.policy.optimizer;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        set(op, strategy.config(op));
        if (problem.graph().op(op).kind == OpKind::parameter) set_update(op, strategy.update(op));
        set_recompute(op, strategy.ops[i].recompute);
    }
    accept();
}

void StrategyTensors::put(std::size_t row, const OpLayouts* layouts) {
    ops_before_.emplace_back(row, ops_[row]);
    ops_[row] = layouts;
}

void StrategyTensors::reject() {
    for (; !ops_before_.empty(); ops_before_.pop_back()) {
        ops_[ops_before_.back().first] = ops_before_.back().second;
    }
    for (; !updates_before_.empty(); updates_before_.pop_back()) {
        updates_[updates_before_.back().first] = std::move(updates_before_.back().second);
    }
    for (; !recompute_before_.empty(); recompute_before_.pop_back()) {
        recompute_[recompute_before_.back().first] = recompute_before_.back().second;
    }
}

void StrategyTensors::accept() {
    ops_before_.clear();
    updates_before_.clear();
    recompute_before_.clear();
}

void StrategyTensors::set(OpId op, const OpConfig& config) {
    for (int m = 0; m < rows_.micro_batches() && rows_.runs_in(op, m); ++m) {
        const int like = cache_.like(rows_.micro_batches(), m);
        put(rows_.row(op, m), like < m ? ops_[rows_.row(op, like)]
                                       : &cache_.of(op, config, rows_.micro_batches(), m));
    }
    if (problem_.graph().op(op).kind == OpKind::parameter) refresh_update(op);
}

bool StrategyTensors::set_update(OpId parameter, const UpdateConfig& update) {
    Update& known = updates_[parameter.index()];
    if (known.config == update) return false;
    updates_before_.emplace_back(parameter.index(), known);
    known = {update, nullptr};
    if (!update.update.devices.empty()) {
        known.layouts = &cache_.of(parameter, update.update, rows_.micro_batches(), 0);
    }
    refresh_update(parameter);
    return true;
}

bool StrategyTensors::set_recompute(OpId op, Recompute choice) {
    if (recompute_[op.index()] == choice) return false;
    recompute_before_.emplace_back(op.index(), std::exchange(recompute_[op.index()], choice));
    return true;
}

std::optional<PartBlock> StrategyTensors::before(const PartBlock& block) const {
    const bool is_first =
        block.pass == Pass::forward || problem_.graph().op(block.op).kind == OpKind::output;
    if (is_first) return std::nullopt;
    if (block.pass == Pass::weights) {
        return PartBlock{block.op, block.micro_batch, Pass::backward};
    }
    const bool again = block.pass == Pass::backward && recompute(block.op) != Recompute::none;
    return PartBlock{block.op, block.micro_batch, again ? Pass::recompute : Pass::forward};
}

void StrategyTensors::refresh_update(OpId parameter) {
    Update& update = updates_[parameter.index()];
    if (!update.config.update.devices.empty()) return;
    updates_before_.emplace_back(parameter.index(), update);
    update.layouts = &of(parameter, 0);
}

std::int32_t StrategyTensors::layout_at(const TensorEvent& event) const {
    const auto operand = static_cast<std::size_t>(event.operand);
    if (event.kind == Kind::accumulate) return -1;
    if (event.choice != Recompute::none && event.choice != recompute_[event.op.index()]) return -1;
    if (event.kind == Kind::parameter || event.kind == Kind::update) {
        return updates_[event.op.index()].layouts->results[0];
    }
    const OpLayouts& layouts = of(event.op, event.micro_batch);
    switch (event.kind) {
    case Kind::produce:
    case Kind::reproduce: return layouts.results[operand];
    case Kind::await_gradient: return layouts.results[0];  // for its devices
    case Kind::await_backward:                             // the same
        return layouts.results.empty() ? layouts.operands[0] : layouts.results[0];
    case Kind::forward_use:
    case Kind::recompute_use:
    case Kind::backward_use: return layouts.operands[operand];
    case Kind::contribute: return layouts.operand_gradients[operand];
    default: break;
    }
    // A result that the backward needs is combined where the parts' are partial: RULES.md 12.
    return layouts.result_gradients[operand];
}

std::size_t StrategyTensors::row_alike(std::size_t row) const {
    const auto m = static_cast<std::size_t>(rows_.micro_batches());
    const auto micro_batch = static_cast<int>(row % m);
    return row - row % m +
           static_cast<std::size_t>(cache_.like(rows_.micro_batches(), micro_batch));
}

const TensorTasks& StrategyTensors::tasks(std::size_t row) {
    const TensorEvents& events = script_.tensors[row];
    const Update& update = updates_[problem_.graph().tensor(events.tensor).producer.index()];
    key_.refetch = update.config.refetch;
    key_.accumulate_locally = update.config.accumulate_locally;
    key_.layouts.clear();
    for (const TensorEvent& event : events.events) key_.layouts.push_back(layout_at(event));
    return cache_.tasks(row, key_);
}

}  // namespace partita::plan
