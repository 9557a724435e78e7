// SPDX-License-Identifier: Apache-2.0
//
// What flows along the edges of an OpGraph. Shapes are concrete: symbolic dims were bound by the
// importer. A dim whose extent depends on data (NonZero) holds its upper bound and is marked; such
// a dim is never split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/dtype.h"
#include "graph/ids.h"

namespace partita::graph {

enum class TensorRole : std::uint8_t {
    input,       ///< given anew each iteration
    parameter,   ///< trained: floating-point weights
    constant,    ///< never changes: indices, masks, scalars, folded shape arithmetic
    activation,  ///< result of an op
};

using Shape = std::vector<std::int64_t>;

struct Tensor {
    std::string name;
    Shape shape;
    DType dtype = DType::float32;
    TensorRole role = TensorRole::activation;
    OpId producer;  ///< every tensor has one: sources are ops too
    /// Bit i: dim i (< 64) is an upper bound.
    std::uint64_t upper_bound_dims = 0;
    /// Its value when it is known, integral and small (shape targets, axes, index lists),
    /// row-major.
    std::optional<std::vector<std::int64_t>> known_integers;
    /// Of its gradient, where that is kept, added up and sent in another type (mixed precision).
    std::optional<DType> gradient_dtype;
    /// Bytes given by a workload file instead of shape and dtype.
    std::optional<Bytes> given_bytes;

    [[nodiscard]] std::int64_t elements() const;  ///< 1 for a scalar; throws OverflowError
    [[nodiscard]] Bytes bytes() const;
    /// Element type of its gradient, or of its value.
    [[nodiscard]] DType type_of(bool gradient) const {
        return gradient ? gradient_dtype.value_or(dtype) : dtype;
    }
};

/// Values of parameters and constants, read only when something runs; while planning only single
/// numbers that decide what an op is. Implemented by importers (external data, inline data) and by
/// tests. Thread-safe.
class TensorSource {
public:
    virtual ~TensorSource() = default;
    /// Fills `out` with the bytes from `offset` on of the tensor called `name`, in row-major
    /// little-endian order. Throws InputError naming file and tensor when they cannot be had.
    virtual void read(const std::string& name, Bytes offset, std::span<std::byte> out) const = 0;
};

}  // namespace partita::graph
