// SPDX-License-Identifier: Apache-2.0
//
// What strategies take when they run, for --reward measured. Whoever runs a search hands in how to
// run one; the same strategy runs once.
//
//     strategy ─▶ digest ─▶ known? ─▶ its time
//                             └─ no ─▶ EngineOptions::measure
//
// Threads: one. Errors: what the function throws.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// The time of an iteration; none: it failed, or took too long.
using Measure = std::function<std::optional<Time>(const plan::Strategy& strategy)>;

class Measurements {
public:
    explicit Measurements(Measure measure) : measure_(std::move(measure)) {}

    [[nodiscard]] std::optional<Time> time(const plan::Strategy& strategy);
    /// Strategies that were run.
    [[nodiscard]] std::size_t count() const { return known_.size(); }

private:
    Measure measure_;
    std::map<std::string, std::optional<Time>> known_;  ///< by digest
};

/// 64 hexadecimal digits; of equal strategies the same. A list of updates may end before its
/// defaults do.
std::string digest(const plan::Strategy& strategy);

}  // namespace partita::search
