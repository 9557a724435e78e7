// SPDX-License-Identifier: Apache-2.0
//
// A plan as frameworks that train are told one: degrees of a regular grid, whose ranks are numbered
// stage by stage, replicas of the data in a stage, context and tensor parallel ones in those:
//
//     rank = ((stage * data + d) * context + c) * tensor + t
//
// which is how Megatron-LM, DeepSpeed and torchtitan number them all. A plan that is otherwise is
// refused, and what is otherwise is said.
//
// Source: Megatron-LM's parallel_state.py (order tp-cp-ep-dp-pp), torchtitan's ParallelDims,
// DeepSpeed's PipeModelDataParallelTopology.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/strategy/zero_level.h"

namespace partita::plan {

/// Devices in the order of the grid's ranks: [stages, data, context, tensor], row-major.
struct DeviceGrid {
    int stages = 1;
    int data = 1;
    int context = 1;
    int tensor = 1;
    std::vector<int> devices;
};

struct TrainingGrid : DeviceGrid {
    int chunks = 1;          ///< of layers on each stage
    int experts = 1;         ///< of products of experts, on ranks that share the data
    int experts_tensor = 1;  ///< the same: devices that share each
    /// Do tensor parallel devices share the positions, where products do not need all of them?
    bool sequence = false;
    ZeroLevel zero = ZeroLevel::none;
    Recompute recompute = Recompute::none;       ///< of every layer
    std::int64_t samples = 0;                    ///< of an iteration, on all devices
    std::int64_t micro_batch = 0;                ///< samples of one, on a replica
    std::int64_t positions = 0;                  ///< of a sample; 0: the model reads no tokens
    graph::DType dtype = graph::DType::float32;  ///< of products with weights
    /// Layers of the first stage, of the second, ...; then of the second chunk of the first. Empty:
    /// there is one stage.
    std::vector<int> layers;

    /// Has every stage, and every chunk, as many layers?
    [[nodiscard]] bool even() const;
};

/// Of inference, too. nullopt: the plan is no regular grid in this order.
std::optional<DeviceGrid> device_grid_of(const Problem& problem, const Strategy& strategy);

/// Throws UsageError, which begins with `format` and names what is otherwise and what to do.
TrainingGrid training_grid_of(const Problem& problem, const Strategy& strategy,
                              std::string_view format);

}  // namespace partita::plan
