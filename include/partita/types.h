// SPDX-License-Identifier: Apache-2.0
//
// The types that values have everywhere: Time (picoseconds) and Bytes, integers that do not mix and
// whose arithmetic is checked; element types; shapes.
//
//     partita::Time step = plan.value();
//     partita::to_seconds(step)   partita::to_text(step)   step.raw()    0.00143, "1.43 ms", in ps
//     partita::microseconds(2)    partita::gibibytes(80)                 a Time, Bytes
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "graph/dtype.h"

namespace partita {

/// Element types, those of ONNX: DType::float32, DType::bfloat16, ...
using DType = graph::DType;
using ProductType = graph::ProductType;

/// Extents, outermost first; a scalar has none.
using Shape = std::vector<std::int64_t>;

constexpr Bytes gibibytes(std::int64_t n) {
    return n * Bytes(std::int64_t{1} << 30);
}
constexpr Bytes gigabytes(std::int64_t n) {
    return n * Bytes(1'000'000'000);
}

}  // namespace partita
