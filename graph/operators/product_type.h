// SPDX-License-Identifier: Apache-2.0
//
// Products of less precision than their operands are stored in. Which these are is what engines do:
//
//     tf32     every product of float32 (torch.backends.cuda.matmul.allow_tf32)
//     float8   MatMul, Gemm, Linear with a weight, of 16 bits or float32 (Transformer Engine's
//              fp8_autocast: linear layers, forward and backward; attention's products stay as they
//              are)
//
// Tensors keep their types, and so their bytes: a type of products is a matter of rates alone.
#pragma once

#include <cstddef>

#include "graph/op_graph.h"

namespace partita::graph {

/// Gives every op that has such products the type; says how many there are.
std::size_t set_product_type(OpGraph& graph, ProductType type);

}  // namespace partita::graph
