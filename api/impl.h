// SPDX-License-Identifier: Apache-2.0
//
// What the public types hold.
#pragma once

#include "api/loaded_model.h"
#include "cost/machine/machine.h"
#include "plan/files/plan_file.h"

#include <partita/machine.h>
#include <partita/model.h>
#include <partita/plan.h>

namespace partita {

struct Model::Impl {
    api::LoadedModel loaded;
};

struct Machine::Impl {
    cost::Machine machine;
};

struct Plan::Impl {
    plan::Plan plan;
};

}  // namespace partita
