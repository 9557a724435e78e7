// SPDX-License-Identifier: Apache-2.0
//
// What several families need to know of their operands: broadcasting as it was before opset 7,
// axes counted from the back, extents of a part's results; and gradients for functions that
// autograd knows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// Operand 1 of a broadcasting operator, with dims of 1 behind its own where attribute `axis`
/// (before opset 7) places it further to the left.
at::Tensor second_operand(const KernelCall& call);
/// The same where the first may not be saved.
at::Tensor second_operand(const BackwardCall& call);

/// gradient(i) for every wanted operand, summed to the operand's shape.
Tensors to_operands(const BackwardCall& call,
                    const std::function<at::Tensor(std::size_t)>& gradient);

/// 0 <= axis < rank, from -rank <= axis < rank; of no dims as of one. Throws InputError for other
/// axes.
std::int64_t from_front(std::int64_t axis, std::int64_t rank);

/// Of the part's region of a result.
graph::Shape result_extents(const KernelCall& call, std::size_t result);

/// The backward of a forward that reads nothing but saved operands: runs it again and
/// differentiates it. Costs one more forward; keeps nothing.
Tensors differentiate_again(const BackwardCall& call, ForwardKernel forward);

/// The same for a forward that is linear in operand 0, and hence has a gradient that does not
/// depend on it: differentiated at zero, of the type of the gradient.
Tensors differentiate_linear(const BackwardCall& call, ForwardKernel forward);

}  // namespace partita::runtime
