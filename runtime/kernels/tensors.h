// SPDX-License-Identifier: Apache-2.0
//
// Between our tensors and ATen's. 4-bit and 2-bit integers are held one to a byte, as 8-bit ones;
// strings have no ATen tensor.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "graph/dtype.h"
#include "graph/host_tensor.h"
#include "graph/tensor.h"

namespace partita::runtime {

/// nullopt: ATen has no such element type.
std::optional<at::ScalarType> scalar_type_of(graph::DType dtype);
/// The dtype whose elements ATen holds as that type.
graph::DType dtype_of(at::ScalarType type);

/// A copy, on the CPU. Throws InputError when the type has no ATen tensor, or the bytes are not
/// those of the shape.
at::Tensor to_aten(const graph::HostTensor& tensor);
/// `dtype`: what the elements mean (a 4-bit integer lies in an 8-bit one).
graph::HostTensor to_host(const at::Tensor& tensor, graph::DType dtype);

/// A CPU tensor of int64, e.g. a shape target.
at::Tensor integer_tensor(const std::vector<std::int64_t>& values, const graph::Shape& shape);

}  // namespace partita::runtime
