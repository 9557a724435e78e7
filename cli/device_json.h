// SPDX-License-Identifier: Apache-2.0
//
// `devices` of --json, as `plan` and `simulate` write it.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/tasks/memory_kind.h"

namespace partita::cli {

/// One object per device of the evaluation; `memory` (plan::Priced) may be empty: then it is null.
/// Beside what adds up to memory_bytes it says what the machine reserves.
nlohmann::ordered_json devices_json(const plan::Problem& problem,
                                    const plan::Evaluation& evaluation,
                                    const std::vector<plan::MemoryByKind>& memory);

}  // namespace partita::cli
