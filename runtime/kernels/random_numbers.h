// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend on nothing but an op's name, its `seed` and the position of the element in
// the whole tensor: however the op is split, and on whichever device, an element gets the same number.
// Each run gets the same ones; without `seed` two ops of a model get different ones.
//
// Bits are mixed dim by dim, from the outermost on, so that what is to be had of one entry need not be
// made of all:
//
//     seed [] ─▶ with_dim(positions [n]) [n] ─▶ with_dim(positions [h]) [n h] ─▶ ... ─▶ as_uniform
//
// Source: the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), one step per dim.
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "graph/operators/part.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// Of the call's attribute `seed`, or, without, of `name`.
std::int64_t seed_of(const KernelCall& call, std::string_view name);

/// int64 [], on the call's device.
at::Tensor random_bits(const KernelCall& call, std::int64_t seed);

/// int64 [positions], on the call's device.
at::Tensor positions_of(const KernelCall& call, const graph::Positions& positions);

/// `bits` [... 1] and positions [... p], which broadcast -> [... p].
at::Tensor with_dim(const at::Tensor& bits, const at::Tensor& positions);

/// float64 in [0, 1), one per element of `bits`.
at::Tensor as_uniform(const at::Tensor& bits);

/// One number per element of the part's region of result 0; another `stream`, other numbers.
at::Tensor uniform_numbers(const KernelCall& call, std::int64_t stream = 0);

}  // namespace partita::runtime
