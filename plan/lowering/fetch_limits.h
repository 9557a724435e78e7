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
// A unit is fetched at once: the parameters of a bucket (gradient_buckets.h) for a forward or a
// backward, or what the parts of one op read. Limits follow the order in which devices run what
// reads, so no cycle can arise: what fetches a unit can be put right before the first that reads any
// of it.
//
// Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.3 (prefetching, rate limiter).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/lowering/block_order.h"
#include "plan/problem/problem.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// What is fetched at once.
struct FetchUnit {
    std::int32_t bucket = -1;  ///< -1: what one block reads
    std::int32_t device = -1;  ///< of a bucket: of the first part that reads
    bool backward = false;     ///< the same, as micro_batch
    std::int32_t micro_batch = 0;
    PartBlock block;  ///< without a bucket
    friend auto operator<=>(const FetchUnit&, const FetchUnit&) = default;
};

/// The tasks of a row (StrategyTensors::events), of which some fetch (TensorTasks::fetches).
struct FetchedTensor {
    std::size_t row = 0;
    const TensorTasks* tasks = nullptr;
};

/// A task of one row that waits for a part, or a task, that another row refers to so.
struct FetchLimit {
    std::size_t row = 0;
    std::size_t task = 0;
    std::size_t before_row = 0;
    TaskRef before = -1;
};

class FetchLimits {
public:
    /// All must outlive it.
    FetchLimits(const Problem& problem, const StrategyTensors& layouts);

    /// With what that block finds of a parameter.
    [[nodiscard]] FetchUnit unit_of(graph::TensorId t, const PartBlock& readers) const;
    /// By the layouts as they are; in any order, maybe several times.
    [[nodiscard]] std::vector<FetchLimit> find(const BlockOrder& order,
                                               std::span<const FetchedTensor> tensors) const;

private:
    /// When a block runs, as far as that can be compared: its schedule key and, among those of one
    /// key, its place in the script.
    using Moment = std::pair<std::int32_t, std::uint32_t>;

    struct Range {
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    /// One use of a parameter that is fetched for it.
    struct Fetch {
        FetchUnit unit;
        FetchedTensor tensor;
        std::int32_t block = -1;  ///< that reads, of the row's
        Range tasks;
        Range gradient;  ///< tasks that take the gradient it gives to its place
        friend bool operator<(const Fetch& a, const Fetch& b) { return a.unit < b.unit; }
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

    [[nodiscard]] const TensorEvents& events(const FetchedTensor& tensor) const {
        return layouts_.events()[tensor.row];
    }
    [[nodiscard]] const PartBlock& block_of(const Fetch& fetch) const {
        return events(fetch.tensor).blocks[static_cast<std::size_t>(fetch.block)];
    }
    [[nodiscard]] Moment moment_of(const BlockOrder& order, const PartBlock& block) const;
    void add_fetches(const FetchedTensor& tensor, std::vector<Fetch>& fetches) const;
    [[nodiscard]] bool has_gradient_in_time(const Fetch& fetch) const;
    [[nodiscard]] std::vector<Unit> units_of(const BlockOrder& order,
                                             std::span<const Fetch> fetches) const;
    void add_readers(const BlockOrder& order, const Fetch& fetch, std::int32_t block,
                     Unit& unit) const;
    [[nodiscard]] std::optional<Moment> gradients_of(const BlockOrder& order,
                                                     const FetchUnit& unit) const;
    void add_limits(std::int32_t device, std::span<const Unit* const> units,
                    std::vector<FetchLimit>& limits) const;

    const Problem& problem_;
    const StrategyTensors& layouts_;
    /// Of blocks, in the script; by what is decided of the op, of what may run again.
    std::vector<std::uint32_t> places_;
    std::vector<std::uint32_t> selective_places_;
};

}  // namespace partita::plan
