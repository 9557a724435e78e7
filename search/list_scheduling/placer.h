// SPDX-License-Identifier: Apache-2.0
//
// A classical placer as a searcher: one placement, made to fit, and done.
#pragma once

#include "search/coarsening/group_graph.h"
#include "search/core/searcher.h"

namespace partita::search {

class Placer final : public Searcher {
public:
    using Place = Placement (*)(const GroupGraph&);
    explicit Placer(Place place) : place_(place) {}

    /// One step: places, evaluates, repairs (search/list_scheduling/memory_repair.h).
    [[nodiscard]] Status step(Engine& engine) override;

private:
    Place place_;
};

}  // namespace partita::search
