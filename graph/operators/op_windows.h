// SPDX-License-Identifier: Apache-2.0
//
// Windows of convolutions and pooling from the attributes strides, pads, dilations, auto_pad and
// kernel_shape. Output i of one spatial dim reads the operand's positions
//
//     i*stride - pad + j*dilation,  j = 0 ... kernel - 1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/operators/op_rules.h"

namespace partita::graph {

/// One spatial dim.
struct SpatialWindow {
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t dilation = 1;
    std::int64_t pad_begin = 0;  ///< as written; auto_pad is resolved against the extents later
};

/// "w", "h w", "d h w", or "s0 s1 ..." for more dims.
std::string spatial_name(int index, int count);

/// Complains when an attribute has the wrong length or values < 1.
std::vector<SpatialWindow> window_attributes(RuleBuilder& b, const Shape& kernel);

/// Dims 2, 3, ... of `operand` are windowed over `factors`, the spatial factors of result 0.
void set_windows(RuleBuilder& b, int operand, const std::vector<int>& factors,
                 const std::vector<SpatialWindow>& windows);
/// The same for the transposed convolution: output i is written by operand positions p with
/// i = p*stride - pad + j*dilation.
void set_transposed_windows(RuleBuilder& b, int operand, const std::vector<int>& factors,
                            const std::vector<SpatialWindow>& windows);

}  // namespace partita::graph
