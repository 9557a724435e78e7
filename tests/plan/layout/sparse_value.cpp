// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/layout/sparse_value.h"

#include <algorithm>
#include <stdexcept>

namespace partita::plan {

namespace {

void visit_dims(const graph::Region& region, const graph::Shape& shape,
                const std::function<void(std::size_t)>& visit, std::size_t dim,
                std::int64_t index) {
    if (dim == shape.size()) {
        visit(static_cast<std::size_t>(index));
        return;
    }
    for (const graph::Range range : region.dims[dim]) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            visit_dims(region, shape, visit, dim + 1, index * shape[dim] + i);
        }
    }
}

}  // namespace

SparseValue unknown(const graph::Shape& shape) {
    std::size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
    return {std::vector<std::int64_t>(size, 0), std::vector<char>(size, 0)};
}

void for_each_element(const graph::Region& region, const graph::Shape& shape,
                      const std::function<void(std::size_t)>& visit) {
    visit_dims(region, shape, visit, 0, 0);
}

std::int64_t combined(graph::Combine combine, std::int64_t a, std::int64_t b) {
    switch (combine) {
    case graph::Combine::sum: return a + b;
    case graph::Combine::max: return std::max(a, b);
    case graph::Combine::min: return std::min(a, b);
    case graph::Combine::log_sum_exp:  // integers have none; a product stands for it
    case graph::Combine::product: return a * b;
    case graph::Combine::none: break;
    }
    throw std::logic_error("two values of an element that is no partial one");
}

}  // namespace partita::plan
