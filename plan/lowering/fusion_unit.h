// SPDX-License-Identifier: Apache-2.0
//
// Which collectives of a strategy may move as one (fused_collectives.h): those of one unit, if they
// are equally deep (TensorTasks::fusion_blocks).
//
//     around a block      what all its parts wait for, or gradients that wait for all of them
//     a bucket's, of a micro-batch (gradient_buckets.h)
//         gradients       and new values
//         fetches         of parameters, for a forward or for a backward, by parts on the same devices
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "plan/problem/problem.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

struct FusionUnit {
    std::int32_t bucket = -1;  ///< -1: around the block
    std::int32_t device = -1;  ///< of fetches in a bucket: of the first part that reads
    bool backward = false;     ///< the same: for a backward, or what runs again for it
    std::int32_t micro_batch = 0;
    PartBlock block;
    friend auto operator<=>(const FusionUnit&, const FusionUnit&) = default;
};

/// Of what fetches a parameter for the parts of an event, which has some.
FusionUnit fetch_unit(const Problem& problem, const StrategyTensors& layouts, std::size_t row,
                      const TensorEvent& event);

/// Of one of the row's collectives that may be fused (TensorTasks::fusible).
FusionUnit fusion_unit(const Problem& problem, const StrategyTensors& layouts, std::size_t row,
                       const TensorTasks& tasks, std::size_t task);

}  // namespace partita::plan
