// SPDX-License-Identifier: Apache-2.0
//
// The additive evaluator: how long an iteration takes if no two things happen at once, but for
// parts of one op and transfers of one reshard.
//
//     value = sum over ops       forward + backward                        of the largest part
//                                + (gradients of its results - 1) * addition
//                                + combining partial results that the backward needs whole
//           + sum over uses      reshard of the tensor, producer -> use
//                                + reshard of its gradient, use -> producer
//           + sum over           update + distribution of the new value + additions of gradients
//             parameters
//
// An n-th of the reshards of a parameter counts at each of its n uses, rounded up: its readers are
// mostly the steps of a layer, which share one reshard. Other tensors are resharded once per use,
// also where lowering lets uses of equal layout share one: so every term depends on the configs of
// two ops at most, and elimination (search/variable_elimination/elimination.h) finds the best
// strategy. With m micro-batches what differs between them counts m times as the first; gradients
// of parameters are taken to be added where they arise, as with UpdateConfig::accumulate_locally.
//
// The time of a reshard: its tasks are those of lowering, at their prices, in rounds: a round holds
// what waits for the round before, and lasts as long as its busiest resource (resource_sets.h).
//
// So it equals the sum of durations, and the makespan, on one device; and wherever nothing can
// overlap, collectives are not fused (fused_collectives.h), and no two uses share a reshard.
//
// Source: Jia, Lin, Qi, Aiken, Exploring Hidden Dimensions in Parallelizing Convolutional Neural
// Networks, ICML 2018, equation (1); REFERENCES.md 6.9.
// Differs: gradients are resharded too and updates priced apart; synchronization is the reshard of
// a parameter's gradient.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash_index.h"
#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/tensor_lowering.h"

namespace partita::plan {

/// The terms of the sum above, each found once per combination of layouts. One object per thread.
class AdditivePrices {
public:
    /// Problem and cache must outlive it; the cache must not forget in between. `policy`: of the
    /// strategies that are priced.
    AdditivePrices(const Problem& problem, const Policy& policy, LoweringCache& cache);

    /// An op with these layouts in its first micro-batch; all micro-batches together.
    Time op_time(graph::OpId op, const OpLayouts& layouts);
    /// What comes between `home` of the tensor's producer and `reader` of one use, both ways. Of a
    /// trained parameter also where it is `updated`; the share of this use.
    Time use_time(graph::TensorId t, graph::Use use, const OpLayouts& home,
                  const OpLayouts& reader);
    Time parameter_use_time(graph::TensorId t, graph::Use use, const OpLayouts& home,
                            const OpLayouts& updated, bool refetch, const OpLayouts& reader);
    /// Updating a trained parameter whose gradient lies as `updated`, and bringing it `home`.
    Time update_time(graph::TensorId t, const OpLayouts& home, const OpLayouts& updated);

    /// Is it a parameter that is updated?
    [[nodiscard]] bool is_trained(graph::TensorId t) const;
    /// Tensors of one number have equal prices in equal layouts.
    [[nodiscard]] std::int32_t alike(graph::TensorId t) const { return alike_[t.index()]; }
    /// How many uses of the tensor give a gradient.
    [[nodiscard]] std::int64_t gradient_count(graph::TensorId t) const;

private:
    enum class Way : std::uint8_t { value, gradient, update };
    struct Known {
        std::int32_t alike = -1;
        std::int32_t from = -1;
        std::int32_t to = -1;
        Way way = Way::value;
        Time time;
    };

    Time time_of(graph::TensorId t, Way way, std::int32_t from, std::int32_t to);
    Time find_time(graph::TensorId t, Way way, std::int32_t from, std::int32_t to);
    Time time_in_rounds(const TensorTasks& tasks);
    [[nodiscard]] std::size_t result_of(graph::TensorId t) const;
    [[nodiscard]] Time addition(graph::TensorId t, std::int32_t layout) const;
    [[nodiscard]] std::int64_t times(bool batched) const;
    void number_alike();

    const Problem& problem_;
    const int micro_batches_;
    LoweringCache& cache_;
    std::unique_ptr<TensorLowering> lowering_;
    std::vector<std::int32_t> alike_;  ///< per tensor
    std::vector<Known> known_;
    HashIndex index_;
    TensorEvents events_;  ///< kept for its memory, as all below
    TensorKey key_;
    std::vector<std::int32_t> rounds_;  ///< per task
    std::vector<std::int64_t> loads_;   ///< per resource
};

/// The value of a legal strategy. Forgets nothing of the cache.
Time additive_time(const Problem& problem, const Strategy& strategy, LoweringCache& cache);

}  // namespace partita::plan
