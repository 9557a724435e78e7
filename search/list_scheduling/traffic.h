// SPDX-License-Identifier: Apache-2.0
//
// The traffic term of Mayer's scores:
//
//     traffic(v, d) = 1 + bytes on edges to placed neighbours elsewhere / bytes on all edges of v
//
// in [1, 2]; 1 for a group without edges.
// Source: Mayer et al. 2017; normalised as in REFERENCES.md 5.
#pragma once

#include <vector>

#include "search/coarsening/group_graph.h"

namespace partita::search {

/// One object per placing, used for one group at a time.
class Traffic {
public:
    explicit Traffic(const GroupGraph& graph);

    /// Looks at the neighbours of `group`, those placed so far (>= 0) and the others.
    void look_at(std::size_t group, const Placement& placement);
    /// Of the group looked at last.
    [[nodiscard]] double on(int device) const;

private:
    const GroupGraph& graph_;
    std::vector<double> bytes_;  ///< per device, to the placed neighbours there
    std::vector<int> touched_;
    double placed_ = 0;
    double all_ = 0;
};

}  // namespace partita::search
