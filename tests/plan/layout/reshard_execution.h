// SPDX-License-Identifier: Apache-2.0
//
// Runs a reshard on integers and holds it to what its transfers promise:
//
//     all              ranks are distinct, and are those that give or get; a root comes first
//     copy             elements of one piece, from its device to another
//     all-reduce       all addends of one region, one per rank; every rank gets their combination
//     reduce-scatter   the same, every rank gets a part of it
//     all-gather       disjoint pieces, in order of ranks; every rank gets all of them
//     all-to-all       disjoint pieces; every rank gets elements of each
//     broadcast        one piece, of the root; the other ranks get it
//     scatter          one piece, of the root; the other ranks get a part of it each
//     reduce           all addends of one region, one per rank; the root gets their combination
//     gather           disjoint pieces; the root gets all of them
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "plan/layout/reshard.h"
#include "tests/plan/layout/sparse_value.h"

namespace partita::plan {

/// What each piece of a layout holds.
using PieceValues = std::vector<SparseValue>;

/// How often each kind of transfer was run ("copy", "all-reduce", ...), "resolved", "sliced",
/// "summed" and "local" (pieces that are there already).
using TransferCounts = std::map<std::string, int>;

/// Throws std::logic_error, saying what is wrong, when a promise is broken.
PieceValues run_reshard(const Layout& from, const Layout& to, const PieceValues& values,
                        const graph::Shape& shape, RegionTable& regions,
                        const cost::Machine& machine, TransferCounts& counts);

}  // namespace partita::plan
