// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/units.h"
#include "plan/evaluation/evaluator.h"

namespace partita::plan {

/// What evaluations compare by, and what a limit says.
struct Score {
    bool keeps_schedule = true;
    Bytes overflow;
    Time value;
    friend bool operator==(const Score&, const Score&) = default;

    [[nodiscard]] bool better_than(const Score& other) const {
        if (keeps_schedule != other.keeps_schedule) return keeps_schedule;
        return overflow != other.overflow ? overflow < other.overflow : value < other.value;
    }
    /// As a limit: the other does not exceed it.
    [[nodiscard]] bool admits(const Score& other) const { return !better_than(other); }
};

inline Score score_of(const Evaluation& evaluation) {
    return {evaluation.keeps_schedule, evaluation.overflow, evaluation.value};
}

}  // namespace partita::plan
