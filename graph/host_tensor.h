// SPDX-License-Identifier: Apache-2.0
//
// A tensor with its contents, in the host's memory: what test-data-set files hold, what goes into
// an execution and comes out of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "graph/tensor.h"

namespace partita::graph {

struct HostTensor {
    std::string name;  ///< "" when it has none
    DType dtype = DType::float32;
    Shape shape;
    std::vector<std::byte> bytes;  ///< row-major, little-endian; 4-bit types packed two to a byte
};

}  // namespace partita::graph
