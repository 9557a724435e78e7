// SPDX-License-Identifier: Apache-2.0
//
// ATen moves signed integers of every width anywhere, but unsigned ones and 8-bit floats not by
// every function. A kernel that only moves elements gets the latter as integers of their width.
#pragma once

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// Calls `kernel` with such operands as integers, and gives its results the type of operand 0
/// again.
Tensors carried(ForwardKernel kernel, const KernelCall& call);

/// The same as a row's kernel: any_type<concat>.
template <ForwardKernel kKernel>
Tensors any_type(const KernelCall& call) {
    return carried(kKernel, call);
}

}  // namespace partita::runtime
