// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/strategy/strategy.h"
#include "plan/tensors/iteration_script.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/tensor_events.h"

namespace partita::plan {

/// The layouts of all ops under a strategy, and the tasks of every tensor that follow.
class StrategyTensors {
public:
    /// How a parameter is updated, and the layouts of that: as it is kept, where no devices are
    /// given.
    struct Update {
        UpdateConfig config;
        const OpLayouts* layouts = nullptr;
    };

    /// Problem and cache must outlive it; the cache must not forget in between.
    StrategyTensors(const Problem& problem, const Strategy& strategy, LoweringCache& cache);

    /// The rows of ops and tensors.
    [[nodiscard]] const MicroBatchRows& rows() const { return rows_; }
    [[nodiscard]] const OpLayouts& of(graph::OpId op, int micro_batch) const {
        return *ops_[rows_.row(op, micro_batch)];
    }
    /// Of a row of events. Looked up anew each time.
    [[nodiscard]] const TensorTasks& tasks(std::size_t row);
    /// The first row that has the same tasks because its micro-batch is alike: often the row itself.
    [[nodiscard]] std::size_t row_alike(std::size_t row) const;
    [[nodiscard]] const IterationScript& script() const { return script_; }
    [[nodiscard]] const std::vector<TensorEvents>& events() const { return script_.tensors; }

    void set(graph::OpId op, const OpConfig& config);
    /// False: that is how it is updated already.
    bool set_update(graph::OpId parameter, const UpdateConfig& update);
    /// The same: that is what runs again already.
    bool set_recompute(graph::OpId op, Recompute choice);
    [[nodiscard]] Recompute recompute(graph::OpId op) const { return recompute_[op.index()]; }
    /// The same parts in the pass before; nullopt: there is none.
    [[nodiscard]] std::optional<PartBlock> before(const PartBlock& block) const;
    /// Takes back all that was set since the latest accept().
    void reject();
    void accept();

private:
    [[nodiscard]] std::int32_t layout_at(const TensorEvent& event) const;
    /// Without devices of its own an update has the layouts of the parameter.
    void refresh_update(graph::OpId parameter);
    void put(std::size_t row, const OpLayouts* layouts);

    const Problem& problem_;
    LoweringCache& cache_;
    MicroBatchRows rows_;
    const IterationScript& script_;
    std::vector<const OpLayouts*> ops_;  ///< by row
    std::vector<Update> updates_;        ///< by op
    std::vector<Recompute> recompute_;   ///< the same
    TensorKey key_;                      ///< kept for its memory
    std::vector<std::pair<std::size_t, const OpLayouts*>> ops_before_;
    std::vector<std::pair<std::size_t, Update>> updates_before_;
    std::vector<std::pair<std::size_t, Recompute>> recompute_before_;
};

}  // namespace partita::plan
