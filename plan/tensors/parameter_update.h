// SPDX-License-Identifier: Apache-2.0
//
// The update of a parameter: done in place where its gradient lies, then the new value is brought
// to wherever the old one lay. Private to plan/tensors.
#pragma once

#include <cstddef>

#include "plan/layout/layout.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/tensor_instances.h"
#include "plan/tensors/tensor_prices.h"
#include "plan/tensors/tensor_reshards.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class ParameterUpdate {
public:
    /// All must outlive it.
    ParameterUpdate(const LoweredTensor& tensor, ValuePool& values, TaskEmitter& emitter,
                    TensorReshards& reshards, const TensorInstances& instances)
        : problem_(tensor.problem()),
          tensor_(tensor),
          values_(values),
          emitter_(emitter),
          reshards_(reshards),
          instances_(instances) {}

    void clear() { prices_.clear(); }

    void update(const Instance& gradient);

private:
    Location update_piece(const Piece& piece, std::int32_t part, Locations gradient);
    cost::Price update_price(const Piece& piece);

    const Problem& problem_;
    const LoweredTensor& tensor_;
    ValuePool& values_;
    TaskEmitter& emitter_;
    TensorReshards& reshards_;
    const TensorInstances& instances_;
    TensorPrices prices_;
};

}  // namespace partita::plan
