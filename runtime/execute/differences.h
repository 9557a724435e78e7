// SPDX-License-Identifier: Apache-2.0
//
// How far tensors are from what they should be. Sums in another order differ in their last digits,
// and by more where they nearly cancel; so a difference counts by the largest magnitude of its
// tensor:
//
//     relative = max |a - b| / max(max |b|, m / 1000)     at most    float64 1e-9    float32 1e-3
//                                                                    float16 2e-2    bfloat16 1e-1
//                                                                    integers 0
//
// m: the largest magnitude among all tensors that are compared: a gradient that should be 0, such
// as that of a bias in front of a normalization, is nothing but rounding errors.
#pragma once

#include <string>
#include <vector>

#include "graph/host_tensor.h"
#include "runtime/interface/runtime.h"

namespace partita::runtime {

double tolerance_of(graph::DType dtype);

/// Of a gradient: rounding errors turn units on and off that are nearly 0, so those of deep
/// networks differ by ten times what sums in another order do.
double gradient_tolerance_of(graph::DType dtype);

/// Of the step that an update makes, which follows its gradient; but at most a half, because one
/// that is left out differs by 1:
///
///     float64 1e-8    float32 1e-2    float16 2e-1    bfloat16 5e-1
double update_tolerance_of(graph::DType dtype);

/// One per tensor of `expected`, in its order: "`kind` 'name'". A tensor that is missing, of
/// another shape, or not a number where one is expected, differs by infinity.
std::vector<Difference> differences(const std::string& kind,
                                    const std::vector<graph::HostTensor>& actual,
                                    const std::vector<graph::HostTensor>& expected);

}  // namespace partita::runtime
