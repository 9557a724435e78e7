// SPDX-License-Identifier: Apache-2.0
//
// Hash: every group goes to a device drawn by a hash of its first op's name, in proportion to the
// devices' memory. A baseline: repeatable, blind to cost and traffic.
//
// Optimal: no. Memory: a device without room passes the group on to the next allowed one.
// Seed: none; the same model is placed alike on machines with equal devices.
// Source: Mayer et al. 2017; REFERENCES.md 5.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_hash(const GroupGraph& graph);

}  // namespace partita::search
