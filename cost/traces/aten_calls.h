// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch calls for a work: keys of aten_operators.h.
//
//     forward 11 MatMul.13 (float32[8,64], float32[64,32]) -> ...     product 1 8 64 32
//     backward 11 MatMul.13 (float32[8,64], float32[64,32]) -> ...    product 1 8 32 64, the left
//                                                                       one's gradient
//                                                                     product 1 64 8 32, the right's
//
// A product may be computed transposed, and a matrix with its bias or without: keys of either do.
//
// Pure; any number of threads. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "cost/traces/work_text.h"
#include "graph/dtype.h"

namespace partita::cost {

struct AtenCall {
    std::vector<std::string> keys;  ///< the first that was measured counts
    bool may_lack = false;          ///< part of another call where it was not measured
    bool is_inner = false;          ///< of another call, which has its time unless a table is flat
};

struct AtenCalls {
    graph::DType dtype = graph::DType::undefined;  ///< of what they compute with
    std::vector<AtenCall> calls;                   ///< empty: not known
    /// What keys do not say, strides for one: works of equal keys that differ in it cannot be told
    /// apart. "" where keys say all.
    std::string unsaid;
};

AtenCalls aten_calls(const WorkText& work);

}  // namespace partita::cost
