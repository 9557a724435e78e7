// SPDX-License-Identifier: Apache-2.0
//
// Tensors of which some elements are known: what a device holds, in tests that compute.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/operators/part.h"
#include "graph/tensor.h"

namespace partita::plan {

struct SparseValue {
    std::vector<std::int64_t> data;  ///< by row-major index in the whole tensor
    std::vector<char> known;
    friend bool operator==(const SparseValue&, const SparseValue&) = default;

    void set(std::size_t element, std::int64_t value) {
        data[element] = value;
        known[element] = 1;
    }
    [[nodiscard]] bool knows(std::size_t element) const {
        return element < known.size() && known[element] != 0;
    }
};

/// A tensor of that shape, nothing known of it.
SparseValue unknown(const graph::Shape& shape);

/// Calls `visit(index in the whole tensor)` for the elements of a region, in rising order.
void for_each_element(const graph::Region& region, const graph::Shape& shape,
                      const std::function<void(std::size_t)>& visit);

/// Of two addends of a partial tensor; sums and products are not reduced modulo anything.
std::int64_t combined(graph::Combine combine, std::int64_t a, std::int64_t b);

}  // namespace partita::plan
