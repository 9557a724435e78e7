// SPDX-License-Identifier: Apache-2.0
//
// When parameters are fetched that lie in shards and are dropped after each use
// (UpdateConfig::refetch, as in ZeRO-3 and FSDP). Nothing that is fetched depends on anything:
// without a limit all parameters would be fetched at once, and their gradients wait for the fetches.
//
//     device   reads unit 1     unit 2       unit 3
//     fetches  2                3            4            no earlier than it reads the unit before,
//                                                         and when the gradients of 1 are gone
//
// So a fetch waits for the last reader of the unit two before, and for the gradients of the one
// three before. Units are those of fusions (fusion_unit.h). Limits follow the order in which devices
// run what reads, and all readers of a bucket have a place in it, so no cycle can arise: what fetches
// a unit can be put right before the first that reads any of it.
//
// Source: torch.distributed.fsdp.FullyShardedDataParallel, limit_all_gathers: memory of two units,
// the one that runs and the next; Zhao et al., PyTorch FSDP, VLDB 2023.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/lowering/block_order.h"
#include "plan/lowering/fusion_unit.h"
#include "plan/lowering/row_edge.h"
#include "plan/problem/problem.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

class FetchLimits {
public:
    /// All must outlive it.
    FetchLimits(const Problem& problem, const StrategyTensors& layouts);

    /// By the layouts as they are; in any order, maybe several times.
    [[nodiscard]] std::vector<RowEdge> find(const BlockOrder& order,
                                            const TasksOfRow& tasks_of) const;

private:
    /// When a block runs, as far as that can be compared: its schedule key and, among those of one
    /// key, its step in the script.
    using Moment = std::pair<std::int32_t, std::uint32_t>;

    struct Range {
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    /// One use of a parameter that is fetched for it.
    struct Fetch {
        FusionUnit unit;
        std::size_t row = 0;
        const TensorTasks* of_row = nullptr;
        const TensorEvent* event = nullptr;
        Range tasks;
        Range gradient;  ///< tasks that take the gradient it gives to its place
    };
    /// A part that uses what a unit fetches.
    struct Reader {
        std::int32_t device = -1;
        Moment moment;
        std::size_t row = 0;
        TaskRef part = -1;
        friend auto operator<=>(const Reader&, const Reader&) = default;
    };
    struct Unit {
        std::span<const Fetch> fetches;
        std::vector<Reader> readers;  ///< rising
        Moment begin;                 ///< of the first of these
        /// When all gradients of these parameters can be on their way; nullopt: that cannot be told.
        std::optional<Moment> gradients;
    };

    [[nodiscard]] const PartBlock& block_of(std::size_t row, const TensorEvent& event) const {
        return layouts_.events()[row].blocks[static_cast<std::size_t>(event.block)];
    }
    [[nodiscard]] Moment moment_of(const BlockOrder& order, std::size_t row,
                                   const TensorEvent& event) const;
    void add_fetches(std::size_t row, const TensorTasks& tasks, std::vector<Fetch>& fetches) const;
    [[nodiscard]] bool has_gradient_in_time(const Fetch& fetch) const;
    [[nodiscard]] std::vector<Unit> units_of(const BlockOrder& order,
                                             std::span<const Fetch> fetches) const;
    [[nodiscard]] const TensorEvent* backward_after(const Fetch& fetch) const;
    void add_readers(const BlockOrder& order, std::size_t row, const TensorEvent& event,
                     Unit& unit) const;
    [[nodiscard]] std::optional<Moment> gradients_of(const BlockOrder& order,
                                                     const FusionUnit& unit) const;
    void add_limits(std::int32_t device, std::span<const Unit* const> units,
                    std::vector<RowEdge>& limits) const;

    const Problem& problem_;
    const StrategyTensors& layouts_;
    std::vector<std::size_t> rows_;  ///< of parameters
};

}  // namespace partita::plan
