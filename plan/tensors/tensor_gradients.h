// SPDX-License-Identifier: Apache-2.0
//
// The gradient of the tensor at hand: what consumers contribute, added up and brought to where it
// is wanted. Private to plan/tensors.
//
// Gradients follow by duality: their layouts come from those of operands and results (layout.h), so
// nothing here knows data or tensor parallelism. Contributions of several consumers are added where
// they arise only if their layouts are equal; the others are resharded to the layout that is wanted
// first. Source: RULES.md 13.
#pragma once

#include <cstdint>

#include "base/small_vector.h"
#include "plan/tensors/local_work.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_reshards.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class TensorGradients {
public:
    /// All must outlive it.
    TensorGradients(const LoweredTensor& tensor, ValuePool& values, TaskEmitter& emitter,
                    LocalWork& local_work, TensorReshards& reshards)
        : tensor_(tensor),
          values_(values),
          emitter_(emitter),
          local_work_(local_work),
          reshards_(reshards) {}

    void clear() { pending_.clear(); }

    /// What a consumer's backward contributes, in that layout.
    void contribute(const TensorEvent& event, std::int32_t layout);
    /// Calls `then` with each task of the device that has contributed so far.
    template <class Then>
    void for_each_contribution(int device, Then then) const {
        for (const Pending& pending : pending_) {
            const std::size_t pieces = tensor_.pieces(pending.instance.layout).size();
            for (std::size_t i = 0; i < pieces; ++i) {
                for (const Location& location : values_[values_.piece(pending.instance, i)]) {
                    if (location.device == device) then(location);
                }
            }
        }
    }
    /// Adds up what lies in equal layouts, between two micro-batches. What comes first in a layout
    /// is the accumulator, whose bytes may be persistent.
    void accumulate(int micro_batch, bool persistent);
    /// The gradient in that layout: what lies so already and what is resharded to it, added.
    Instance collect(std::int32_t layout, bool persistent);
    /// Of a parameter: adds the latest contribution to the accumulator, where that lies in the same
    /// layout.
    void add_contribution(int micro_batch);
    /// What else a micro-batch has contributed to a parameter goes to the accumulator, which lies in
    /// that layout unless gradients are accumulated locally.
    void end_micro_batch(int micro_batch, std::int32_t layout);

private:
    /// A gradient that nobody has collected yet.
    struct Pending {
        Instance instance;
        int operand = -1;  ///< of the consumer, unless it is a sum already
    };
    using PendingList = SmallVector<Pending, 4>;

    void allocate(const Pending& pending, Subject subject, bool persistent);
    Instance sum_of(const Instances& instances, const Subject& subject, bool persistent);

    const LoweredTensor& tensor_;
    ValuePool& values_;
    TaskEmitter& emitter_;
    LocalWork& local_work_;
    TensorReshards& reshards_;
    PendingList pending_;
};

}  // namespace partita::plan
