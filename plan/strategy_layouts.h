// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/layout_cache.h"
#include "plan/strategy.h"
#include "plan/tensor_events.h"

namespace partita::plan {

/// The layouts of all ops under a strategy, and what follows for each tensor.
class StrategyLayouts {
public:
    /// All must outlive it; the cache must not forget in between.
    StrategyLayouts(const Problem& problem, const Strategy& strategy, LayoutCache& cache);

    [[nodiscard]] const OpLayouts& of(graph::OpId op, int micro_batch) const {
        return *ops_[rows_.row(op, micro_batch)];
    }
    /// Of a row of events.
    [[nodiscard]] const TensorTasks& tasks(std::size_t row);
    [[nodiscard]] const std::vector<TensorEvents>& events() const { return events_; }

    /// Looks them up again after a change of the strategy.
    void refresh(graph::OpId op);

private:
    [[nodiscard]] std::int32_t layout_at(const TensorEvent& event) const;

    const Problem& problem_;
    const Strategy& strategy_;
    LayoutCache& cache_;
    MicroBatchRows rows_;
    const std::vector<TensorEvents>& events_;
    std::vector<const OpLayouts*> ops_;  ///< by row
    std::vector<const OpLayouts*> updates_;  ///< by op; null: of no trained parameter
    TensorKey key_;                      ///< kept for its memory
};

}  // namespace partita::plan
