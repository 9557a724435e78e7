// SPDX-License-Identifier: Apache-2.0
//
// What two regions of one tensor share, as positions in the memory of both: a tensor that holds a
// region has the extents of its positions and no others (graph/operators/part.h).
//
//     tensor of 10 columns, from 0-4 8-10, to 2-9      segments   from 2, to 0, length 2
//                                                                 from 4, to 6, length 1
//
// One list of segments per dim; what is moved is every combination of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"

namespace partita::runtime {

struct Segment {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t length = 0;
};

class Patch {
public:
    Patch() = default;  ///< of tensors without dims
    /// The common elements of the regions that two tensors hold.
    Patch(const graph::Region& from, const graph::Region& to);

    [[nodiscard]] bool empty() const;
    /// Elements that it moves.
    [[nodiscard]] std::int64_t volume() const;
    /// Is it one box in `from` (`to`)? Then it is a view of it.
    [[nodiscard]] bool is_box() const;
    /// The part of the tensor `from` that is moved; is_box().
    [[nodiscard]] at::Tensor view_of(const at::Tensor& from) const;

    /// to = from, where they have elements in common.
    void copy(const at::Tensor& to, const at::Tensor& from) const;
    /// to = to (+, max, ...) from there.
    void combine(const at::Tensor& to, const at::Tensor& from, graph::Combine combine) const;

private:
    using Dims = std::vector<std::vector<Segment>>;
    template <class Then>
    void visit(std::size_t dim, const at::Tensor& to, const at::Tensor& from, Then then) const;

    Dims dims_;
};

/// to = to (+, max, ...) from, element by element; `from` may lie on another device.
void combine_into(const at::Tensor& to, const at::Tensor& from, graph::Combine combine);

}  // namespace partita::runtime
