// SPDX-License-Identifier: Apache-2.0
//
// What every communicator must do, seen from one rank: each function is called on all ranks of a
// group at once, and reports through GoogleTest. Inputs follow from rank and position alone, so
// that each rank knows what it must get.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "runtime/communicate/communicator.h"

namespace partita::runtime {

struct Conformance {
    std::string_view name;  ///< an identifier
    void (*check)(Communicator& communicator, at::ScalarType type);
};

std::span<const Conformance> conformance_checks();

/// All element types of ATen that are not quantized.
std::span<const at::ScalarType> all_types();

/// `all_reduce` against the plain sum, product, ..., with all types and odd lengths.
void check_all_reduce(Communicator& communicator,
                      const std::function<void(const at::Tensor&, graph::Combine)>& all_reduce);

/// Every check with every type.
void check_conformance(Communicator& communicator, const Conformance& row);

}  // namespace partita::runtime
