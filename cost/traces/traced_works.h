// SPDX-License-Identifier: Apache-2.0
//
// Works and what a trace says of them: rows for a profile database (`profile --import`).
//
//     works of a plan ─▶ aten_calls ─▶ keys ─┐
//                                             ├─▶ rows, works that were not found, calls of no work
//     trace ─▶ operator_times ─▶ keys ───────┘
//
// A work's time is the sum of the medians of its calls. Calls of one key count for all works that
// ask for it: they are the same kernels on operands of the same sizes.
//
// Pure; any number of threads. Errors: none.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cost/profile/profile.h"
#include "cost/traces/operator_times.h"

namespace partita::cost {

struct TracedWorks {
    enum class Finding : std::uint8_t {
        found,
        not_called,  ///< nobody called that with such operands
        ambiguous,   ///< works that differ in what a trace does not say
        no_rule      ///< aten_calls() knows no operator
    };
    std::vector<Finding> findings;   ///< per work
    std::vector<MeasuredWork> rows;  ///< of those that were found, in their order
    std::vector<char> used;          ///< per OperatorTimes::calls
};

/// `works` with what a Measurement says beside times.
TracedWorks traced_works(std::span<const MeasuredWork> works, const OperatorTimes& times);

/// For people: what of the trace counts.
std::string text_of(const OperatorCalls& calls);

}  // namespace partita::cost
