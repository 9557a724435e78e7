// SPDX-License-Identifier: Apache-2.0
//
// The enumerations of the public headers and those inside: the same names, so that the inside can
// change without its headers being public. A value that is none throws UsageError.
#pragma once

#include <string_view>

#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/pipeline_schedule.h"
#include "plan/strategy/strategy.h"
#include "search/core/engine.h"
#include "search/core/searcher.h"
#include "search/portfolio/searcher_table.h"

#include <partita/plan.h>
#include <partita/search.h>

namespace partita::api {

Mode to_public(plan::Mode mode);
Objective to_public(plan::Objective objective);
Schedule to_public(plan::ScheduleKind kind);
Status to_public(search::Status status);
ExactEngine to_public(search::ExactEngine engine);
Recompute to_public(plan::Recompute recompute);

plan::Mode to_internal(Mode mode);
plan::Objective to_internal(Objective objective);
plan::ScheduleKind to_internal(Schedule schedule);
plan::Optimizer to_internal(Optimizer optimizer);
plan::LossKind to_internal(Loss loss);
plan::GradientSync to_internal(GradientSync sync);
plan::Recompute to_internal(Recompute recompute);
plan::HostTime to_internal(const HostTime& host);
plan::Scheduler to_internal(Scheduler scheduler);
search::ExactEngine to_internal(ExactEngine engine);

/// As plan files and options spell them.
std::string_view name_of(Reward reward);
template <class Enum>
requires requires(Enum value) {
    to_internal(value);
}
std::string_view name_of(Enum value) {
    return name_of(to_internal(value));
}

}  // namespace partita::api
