// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor.h"

#include <algorithm>

namespace partita::graph {

std::int64_t Tensor::elements() const {
    // An empty tensor has no elements, whatever the product of its other extents.
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product = checked_product(product, extent);
    return product;
}

Bytes Tensor::bytes() const {
    return given_bytes ? *given_bytes : bytes_for(elements(), bits_of(dtype));
}

}  // namespace partita::graph
