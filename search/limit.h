// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/units.h"
#include "plan/evaluator.h"

namespace partita::search {

/// What a candidate must not exceed to be accepted.
struct Limit {
    bool keeps_schedule = true;
    Bytes overflow;
    Time value;

    [[nodiscard]] bool accepts(const plan::Evaluation& evaluation) const {
        if (evaluation.keeps_schedule != keeps_schedule) return evaluation.keeps_schedule;
        if (evaluation.overflow != overflow) return evaluation.overflow < overflow;
        return evaluation.value <= value;
    }
};

}  // namespace partita::search
