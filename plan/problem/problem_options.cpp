// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/problem_options.h"

namespace partita::plan {

std::string_view name_of(Mode mode) {
    switch (mode) {
    case Mode::inference: return "inference";
    case Mode::training: return "training";
    }
    return {};
}

std::string_view name_of(Objective objective) {
    switch (objective) {
    case Objective::latency: return "latency";
    case Objective::throughput: return "throughput";
    case Objective::step_time: return "step-time";
    }
    return {};
}

}  // namespace partita::plan
