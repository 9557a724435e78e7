// SPDX-License-Identifier: Apache-2.0
//
// Kernel extents, strides, dilations and padding of a convolution or pooling. The padding is
// explicit: graph/operators/part_op.h has resolved auto_pad.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

struct Windows {
    graph::Shape kernel;  ///< per spatial dim, like the rest
    graph::Shape strides;
    graph::Shape dilations;
    graph::Shape before;  ///< padding; may be negative, which crops
    graph::Shape after;

    [[nodiscard]] std::size_t rank() const { return kernel.size(); }
    [[nodiscard]] bool is_dilated() const;
    /// Positions that the windows of `outputs` positions read.
    [[nodiscard]] std::int64_t reach(std::size_t dim, std::int64_t outputs) const {
        return (outputs - 1) * strides[dim] + (kernel[dim] - 1) * dilations[dim] + 1;
    }
    /// May ATen pad both ends of `data` as much as before it, which gives `outputs`? Then the last
    /// windows read no more of it than they should.
    [[nodiscard]] bool may_pad_alike(at::IntArrayRef data, at::IntArrayRef outputs) const;
};

/// `kernel`: of the weight; empty: attribute kernel_shape.
Windows windows_of(const KernelCall& call, const graph::Shape& kernel = {});

/// x [n c ...] with its spatial dims padded, or cropped where that is negative.
at::Tensor padded(const at::Tensor& x, const graph::Shape& before, const graph::Shape& after,
                  double value = 0);

}  // namespace partita::runtime
