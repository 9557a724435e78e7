// SPDX-License-Identifier: Apache-2.0
//
// How TensorTasks come about: event by event. Asked by LoweringCache, whom everyone else asks, and
// by AdditivePrices, whose events are its own.
//
//     LoweredTensor     what is asked: the tensor, its events and its layouts
//     ValuePool         where its values lie
//     TaskEmitter       what is answered: tasks, edges and buffers
//     LocalWork         packs and sums, on one device
//     TensorReshards    from one layout to another, between devices
//     TensorInstances   the layouts in which the tensor lies, for whoever reads it
//     TensorGradients   contributions to its gradient, added up and collected
//     ParameterUpdate   its new value
//     FusionBlocks      which of its collectives may be fused, once all tasks are there
//     TaskTotals        what all come to together
//
// None knows those below it. A search lowers tensors by the hundred thousand, so all lists are kept
// for their memory.
#pragma once

#include <cstdint>

#include "plan/problem/problem.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/fusion_blocks.h"
#include "plan/tensors/local_work.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/parameter_update.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/task_totals.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_gradients.h"
#include "plan/tensors/tensor_instances.h"
#include "plan/tensors/tensor_reshards.h"
#include "plan/tensors/tensor_tasks.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class TensorLowering {
public:
    /// All must outlive it.
    TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions,
                   ResourceSets& resource_sets);
    TensorLowering(const TensorLowering&) = delete;
    TensorLowering& operator=(const TensorLowering&) = delete;
    /// Valid until the next call.
    const TensorTasks& run(const TensorEvents& events, const TensorKey& key);

private:
    void clear();
    void lower(const TensorEvent& event, std::int32_t layout);
    void add_use(const TensorEvent& event, std::int32_t layout);
    void await_gradient(std::int32_t layout);
    void add_sources(const Instance& instance);

    LoweredTensor tensor_;
    ValuePool values_;
    TaskEmitter emitter_;
    LocalWork local_work_;
    TensorReshards reshards_;
    TensorInstances instances_;
    TensorGradients gradients_;
    ParameterUpdate update_;
    FusionBlocks fusion_blocks_;
    TaskTotals totals_;
    Instance collected_;  ///< the gradient that the producer's backward had
};

}  // namespace partita::plan
