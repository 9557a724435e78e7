// SPDX-License-Identifier: Apache-2.0
//
// The layouts in which the tensor at hand lies: where its producer leaves it, and every layout it
// was resharded to since, so that two consumers with equal needs share one reshard. Private to
// plan/tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "base/small_vector.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_reshards.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class TensorInstances {
public:
    /// All must outlive it.
    TensorInstances(const LoweredTensor& tensor, ValuePool& values, TaskEmitter& emitter,
                    TensorReshards& reshards)
        : tensor_(tensor), values_(values), emitter_(emitter), reshards_(reshards) {}

    void clear() {
        instances_.clear();
        recomputed_.clear();
        gathered_again_.clear();
        awaited_.clear();
        epoch_ = -1;
    }

    /// What a producer leaves: parts of an op their results, a source what lies there at time 0.
    /// What is resident lies wherever it is used: nothing happens.
    void produce(const TensorEvent& event, std::int32_t layout);
    /// The same once more, for the backward.
    void reproduce(const TensorEvent& event, std::int32_t layout);
    /// The tensor in the layout that a use needs: an instance that it has already, a slice of one
    /// that lies right, or a reshard of the first.
    Instance find(const TensorEvent& event, std::int32_t layout);
    /// What is gathered again for the next use comes after these parts, each on its device.
    void await(const TensorEvent& event, std::int32_t layout);
    /// Will it find what was recomputed? On other devices than recompute it, such as those of
    /// another stage, what the forward sent is kept.
    [[nodiscard]] bool finds_recomputed(const TensorEvent& event, std::int32_t layout) const;

    /// Is it gathered among the devices that make it, and given up after the forward?
    [[nodiscard]] bool is_gathered_again(const TensorEvent& event, std::int32_t layout) const;

    /// Where the producer leaves it. There must have been a producer.
    [[nodiscard]] const Instance& produced() const { return instances_.front(); }
    /// What never changes lies wherever it is read: the regions that are read, each once.
    void add_resident_memory();

private:
    Instance gather_again(std::int32_t layout);
    Instance add_resident(std::int32_t layout);
    Instance slice(const Instance& from, std::int32_t to);
    Instance fetch(const Instances& known, std::int32_t layout, const Subject& subject);

    const LoweredTensor& tensor_;
    ValuePool& values_;
    TaskEmitter& emitter_;
    TensorReshards& reshards_;
    Instances instances_;   ///< the first is never forgotten
    Instances recomputed_;  ///< the same of what was recomputed; empty: nothing was
    std::vector<std::int32_t> recomputing_;  ///< devices of the first of these, rising
    Instances gathered_again_;               ///< for backwards
    SmallVector<Location, 4> awaited_;       ///< by what is gathered next
    int epoch_ = -1;  ///< of a tensor that is fetched again: the use of all but the first
};

}  // namespace partita::plan
