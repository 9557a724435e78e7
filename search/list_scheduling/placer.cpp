// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/placer.h"

#include "search/core/engine.h"
#include "search/list_scheduling/memory_repair.h"

namespace partita::search {

Status Placer::step(Engine& engine) {
    evaluate_and_repair(engine, place_(engine.groups()));
    return Status::found;
}

}  // namespace partita::search
