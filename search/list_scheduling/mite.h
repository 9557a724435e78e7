// SPDX-License-Identifier: Apache-2.0
//
// Multi-objective (MITE): groups in topological order, each to the device with the smallest
//
//     mite(v, d)   = mem * imp * traffic * time             ties: by device id
//     mem(v, d)    = (bytes on d + bytes of v) / capacity of d          infeasible above 1
//     imp(v, d)    = max(0.01, 1 - u(v) * speed(d) / fastest speed)     u = rank / largest rank
//     traffic      = see search/list_scheduling/traffic.h
//     time(v, d)   = load of d + time of v on d
//
// A product: where one term is 0 the others do not count. Bytes of a group are here what it keeps
// and what it produces, since a group that only keeps nothing would make mem 0 everywhere.
//
// Optimal: no. Memory: a device without room is no candidate; without any, the roomiest is taken.
// Time: O(edges + groups * devices).
// Source: Mayer et al. 2017, equation 8; the normalisation is that of REFERENCES.md 5.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_multi_objective(const GroupGraph& graph);

}  // namespace partita::search
