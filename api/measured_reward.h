// SPDX-License-Identifier: Apache-2.0
//
// What candidates take when they run on this host: --reward measured.
//
//     strategy ─▶ tasks and order that its plan would have ─▶ Runtime::execute() ─▶ median of iterations
//
// Each runs twice to warm up, then until the median is stable, ten times at most. One fails when a
// device does, when this host has not enough memory for it, or when an iteration takes longer than
//
//     20 x the best median so far, at least a second; a minute before there is one
//
// so that a bad candidate costs little. A task that has begun is not interrupted. Values that the
// model does not have are made up. What else runs on this host disturbs the times, and so the
// search.
//
// Threads: one. Errors: UsageError for an op without a kernel, InputError for values that cannot be
// had.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "graph/tensor.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "runtime/interface/runtime.h"

namespace partita::api {

class MeasuredReward {
public:
    /// `values`: of the model; all must outlive it. Throws UsageError for a problem of which
    /// iterations say nothing, and for devices that this host does not have.
    MeasuredReward(runtime::Runtime& runtime, const plan::Problem& problem,
                   const graph::TensorSource* values, plan::Scheduler scheduler);

    /// As EngineOptions::measure; the strategy fits the memory that the machine has.
    [[nodiscard]] std::optional<Time> time(const plan::Strategy& strategy);

    /// What they run on: "cpu:2, 1 thread each".
    [[nodiscard]] const std::string& hardware() const { return hardware_; }
    [[nodiscard]] std::int64_t failures() const { return failures_; }
    [[nodiscard]] const std::string& last_failure() const { return last_failure_; }

private:
    [[nodiscard]] std::chrono::milliseconds limit() const;
    std::nullopt_t fail(std::string why);

    runtime::Runtime& runtime_;
    const plan::Problem& problem_;
    const graph::TensorSource* values_;
    plan::Scheduler scheduler_;
    std::string hardware_;
    std::optional<Time> best_;
    std::int64_t failures_ = 0;
    std::string last_failure_;
};

}  // namespace partita::api
