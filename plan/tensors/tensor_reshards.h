// SPDX-License-Identifier: Apache-2.0
//
// Reshards of the tensor at hand as tasks: what layout/reshard.h plans between two layouts becomes
// packs, copies, collectives and sums. Private to plan/tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/operators/op_rule.h"
#include "plan/layout/reshard.h"
#include "plan/problem/problem.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/local_work.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/tensor_prices.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class TensorReshards {
public:
    /// All must outlive it.
    TensorReshards(const LoweredTensor& tensor, ResourceSets& resource_sets, ValuePool& values,
                   TaskEmitter& emitter, LocalWork& local_work)
        : problem_(tensor.problem()),
          tensor_(tensor),
          resource_sets_(resource_sets),
          values_(values),
          emitter_(emitter),
          local_work_(local_work) {}

    void clear() { prices_.clear(); }

    /// What the instance holds in another layout; the instance itself if it lies so already.
    Instance reshard(const Instance& from, std::int32_t to, const Subject& subject);

private:
    void add_transfer(const Instance& from, const Transfer& transfer, const Subject& subject);
    [[nodiscard]] bool is_one_message(const Locations& locations, const Piece& piece) const;
    TaskRef add_copy(const Transfer& transfer, const Subject& subject);
    TaskRef add_collective(graph::Combine combine, const Transfer& transfer,
                           const Subject& subject);
    Location delivered(const Delivery& delivery, TaskRef transfer, const Subject& subject);
    Locations supplied(const Instance& from, const Supply& supply);

    const Problem& problem_;
    const LoweredTensor& tensor_;
    ResourceSets& resource_sets_;
    ValuePool& values_;
    TaskEmitter& emitter_;
    LocalWork& local_work_;
    TensorPrices prices_;  ///< of copies
    CopyClasses copy_classes_;
    CollectivePrices collective_prices_;
    // Kept for their memory.
    std::vector<Locations> messages_;          ///< of a transfer: what is sent
    std::vector<std::uint32_t> first_pieces_;  ///< per transfer of a reshard: of its results
};

}  // namespace partita::plan
