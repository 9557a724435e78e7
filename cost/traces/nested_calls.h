// SPDX-License-Identifier: Apache-2.0
//
// Calls of operators that call others, and which of them make the list (operator_times.h): of one
// class (aten_operators.h) the outermost, and of those of no class the outermost that have none of a
// class around or inside.
//
//     linear ─▶ addmm ─▶ expand       linear: the others are inside of it
//     step ─▶ relu, to ─▶ copy_       relu, and to: step has a class inside
//
// Pure; any number of threads. Errors: OverflowError for times out of range.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/traces/operator_times.h"

namespace partita::cost {

struct NestedCall {
    std::string name;
    std::vector<graph::Shape> shapes;   ///< as OperatorCalls
    std::optional<graph::DType> dtype;  ///< as OperatorCalls
    double microseconds = 0;            ///< with all that it calls; of 0 it is not listed
    std::ptrdiff_t outer = -1;          ///< number of the call that it is inside of; -1: of none
};

/// Those of equal name, shapes and type together.
std::vector<OperatorCalls> listed_calls(std::span<const NestedCall> calls);

}  // namespace partita::cost
