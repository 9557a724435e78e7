// SPDX-License-Identifier: Apache-2.0
//
// Single device: everything on the device that needs the least time for it all and can hold it. The
// baseline of every other searcher. Ops that --fix keeps away from that device go to the allowed
// device that is fastest for them.
//
// Optimal: the best of all single-device plans when no op is fixed.
// Ends: with the first device that holds everything; found, or infeasible when none does. Groups
// are never moved to other devices to make it fit: that would be another searcher's plan.
#pragma once

#include <optional>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/core/searcher.h"

namespace partita::search {

/// Devices worth trying, fastest first; of devices alike in everything only the first.
std::vector<int> single_device_candidates(const GroupGraph& graph);

Placement place_on(const GroupGraph& graph, int device);

class SingleDevice final : public Searcher {
public:
    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::vector<int> candidates_;
    std::size_t next_ = 0;
    bool started_ = false;
    std::optional<Bytes> too_small_;  ///< the largest capacity that did not suffice
};

}  // namespace partita::search
