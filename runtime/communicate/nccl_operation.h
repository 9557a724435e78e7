// SPDX-License-Identifier: Apache-2.0
//
// NCCL's operations without nccl.h, so that what is asked of NCCL is known where it is not
// installed. nccl_communicator.cpp asserts that the numbers are those of nccl.h.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/operators/op_rule.h"

namespace partita::runtime {

enum class NcclOperation : std::uint8_t { sum = 0, product = 1, max = 2, min = 3 };

/// nullopt: NCCL has none.
constexpr std::optional<NcclOperation> nccl_operation(graph::Combine how) {
    switch (how) {
    case graph::Combine::sum: return NcclOperation::sum;
    case graph::Combine::product: return NcclOperation::product;
    case graph::Combine::max: return NcclOperation::max;
    case graph::Combine::min: return NcclOperation::min;
    case graph::Combine::log_sum_exp:
    case graph::Combine::none: break;
    }
    return std::nullopt;
}

}  // namespace partita::runtime
