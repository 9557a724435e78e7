// SPDX-License-Identifier: Apache-2.0
//
// Work on the tensor at hand where it lies: packs, which bring a piece into the order of a message
// or back, and sums. Private to plan/tensors.
#pragma once

#include <cstddef>
#include <span>

#include "graph/operators/op_rule.h"
#include "plan/layout/layout.h"
#include "plan/problem/problem.h"
#include "plan/tensors/lowered_tensor.h"
#include "plan/tensors/task_emitter.h"
#include "plan/tensors/tensor_prices.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

class LocalWork {
public:
    /// All must outlive it.
    LocalWork(const LoweredTensor& tensor, ValuePool& values, TaskEmitter& emitter)
        : problem_(tensor.problem()), tensor_(tensor), values_(values), emitter_(emitter) {}

    void clear() { prices_.clear(); }

    /// The piece in the order of messages.
    Locations packed(Locations locations, const Subject& subject, const Piece& piece);
    /// What arrived in messages in the order of the tensor.
    Location unpacked(const Location& message, const Subject& subject, const Piece& piece);
    /// Adds values that lie on one device, in place where the first of them covers the piece and
    /// nobody else reads it. `persistent`: the sum's bytes are not those of its buffer.
    Locations sum(Locations locations, const Subject& subject, const Piece& piece,
                  graph::Combine combine, bool persistent);
    /// Is the piece written to memory that is there all along? A new value of a parameter is, where
    /// the old one lies.
    [[nodiscard]] bool is_in_place(const Subject& subject, const Piece& piece);

private:
    TaskRef add_pack(std::span<const Location> locations, const Subject& subject,
                     const Piece& piece);
    cost::Price accumulate_price(const Piece& piece, std::size_t values);
    [[nodiscard]] bool writes_in_block(std::span<const Location> locations, int device) const;

    const Problem& problem_;
    const LoweredTensor& tensor_;
    ValuePool& values_;
    TaskEmitter& emitter_;
    TensorPrices prices_;
    std::size_t next_kept_ = 0;  ///< of any_from()
};

}  // namespace partita::plan
