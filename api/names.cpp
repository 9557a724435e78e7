// SPDX-License-Identifier: Apache-2.0
#include "api/names.h"

#include <string>

#include "base/error.h"

namespace partita::api {
namespace {

[[noreturn]] void fail(const char* type) {
    throw UsageError(std::string(type) + ": the value is none of its names. Use one of those.");
}

}  // namespace

Mode to_public(plan::Mode mode) {
    switch (mode) {
    case plan::Mode::inference: return Mode::inference;
    case plan::Mode::training: return Mode::training;
    }
    fail("Mode");
}

Objective to_public(plan::Objective objective) {
    switch (objective) {
    case plan::Objective::latency: return Objective::latency;
    case plan::Objective::step_time: return Objective::step_time;
    case plan::Objective::throughput: return Objective::throughput;
    }
    fail("Objective");
}

Schedule to_public(plan::ScheduleKind kind) {
    switch (kind) {
    case plan::ScheduleKind::none: return Schedule::none;
    case plan::ScheduleKind::gpipe: return Schedule::gpipe;
    case plan::ScheduleKind::one_f_one_b: return Schedule::one_f_one_b;
    case plan::ScheduleKind::eager_1f1b: return Schedule::eager_1f1b;
    case plan::ScheduleKind::interleaved: return Schedule::interleaved;
    case plan::ScheduleKind::zero_bubble_h1: return Schedule::zero_bubble_h1;
    }
    fail("Schedule");
}

Status to_public(search::Status status) {
    switch (status) {
    case search::Status::optimal: return Status::optimal;
    case search::Status::found: return Status::found;
    case search::Status::in_progress:
    case search::Status::budget_exhausted: return Status::budget_exhausted;
    case search::Status::none_found: return Status::none_found;
    case search::Status::infeasible: return Status::infeasible;
    }
    fail("Status");
}

ExactEngine to_public(search::ExactEngine engine) {
    switch (engine) {
    case search::ExactEngine::own: return ExactEngine::own;
    case search::ExactEngine::highs: return ExactEngine::highs;
    case search::ExactEngine::both: return ExactEngine::both;
    }
    fail("ExactEngine");
}

Recompute to_public(plan::Recompute recompute) {
    switch (recompute) {
    case plan::Recompute::none: return Recompute::none;
    case plan::Recompute::selective: return Recompute::selective;
    case plan::Recompute::full: return Recompute::full;
    case plan::Recompute::automatic: return Recompute::automatic;
    }
    fail("Recompute");
}

plan::Mode to_internal(Mode mode) {
    switch (mode) {
    case Mode::inference: return plan::Mode::inference;
    case Mode::training: return plan::Mode::training;
    }
    fail("Mode");
}

plan::Objective to_internal(Objective objective) {
    switch (objective) {
    case Objective::latency: return plan::Objective::latency;
    case Objective::step_time: return plan::Objective::step_time;
    case Objective::throughput: return plan::Objective::throughput;
    }
    fail("Objective");
}

plan::ScheduleKind to_internal(Schedule schedule) {
    switch (schedule) {
    case Schedule::none: return plan::ScheduleKind::none;
    case Schedule::gpipe: return plan::ScheduleKind::gpipe;
    case Schedule::one_f_one_b: return plan::ScheduleKind::one_f_one_b;
    case Schedule::eager_1f1b: return plan::ScheduleKind::eager_1f1b;
    case Schedule::interleaved: return plan::ScheduleKind::interleaved;
    case Schedule::zero_bubble_h1: return plan::ScheduleKind::zero_bubble_h1;
    }
    fail("Schedule");
}

plan::Optimizer to_internal(Optimizer optimizer) {
    switch (optimizer) {
    case Optimizer::sgd: return plan::Optimizer::sgd;
    case Optimizer::momentum: return plan::Optimizer::momentum;
    case Optimizer::adam: return plan::Optimizer::adam;
    }
    fail("Optimizer");
}

plan::LossKind to_internal(Loss loss) {
    switch (loss) {
    case Loss::sum: return plan::LossKind::sum;
    case Loss::mse: return plan::LossKind::mse;
    case Loss::cross_entropy: return plan::LossKind::cross_entropy;
    }
    fail("Loss");
}

plan::GradientSync to_internal(GradientSync sync) {
    switch (sync) {
    case GradientSync::all_reduce: return plan::GradientSync::all_reduce;
    case GradientSync::parameter_server: return plan::GradientSync::parameter_server;
    }
    fail("GradientSync");
}

plan::Recompute to_internal(Recompute recompute) {
    switch (recompute) {
    case Recompute::none: return plan::Recompute::none;
    case Recompute::selective: return plan::Recompute::selective;
    case Recompute::full: return plan::Recompute::full;
    case Recompute::automatic: return plan::Recompute::automatic;
    }
    fail("Recompute");
}

plan::HostTime to_internal(const HostTime& host) {
    return {host.kernel, host.communication, host.update};
}

plan::Scheduler to_internal(Scheduler scheduler) {
    switch (scheduler) {
    case Scheduler::fifo: return plan::Scheduler::fifo;
    case Scheduler::rank: return plan::Scheduler::rank;
    case Scheduler::pct: return plan::Scheduler::pct;
    case Scheduler::msr: return plan::Scheduler::msr;
    }
    fail("Scheduler");
}

search::ExactEngine to_internal(ExactEngine engine) {
    switch (engine) {
    case ExactEngine::own: return search::ExactEngine::own;
    case ExactEngine::highs: return search::ExactEngine::highs;
    case ExactEngine::both: return search::ExactEngine::both;
    }
    fail("ExactEngine");
}

std::string_view name_of(Reward reward) {
    switch (reward) {
    case Reward::simulated: return "simulated";
    case Reward::measured: return "measured";
    }
    fail("Reward");
}

}  // namespace partita::api
