// SPDX-License-Identifier: Apache-2.0
//
// The file of --fix: which ops may go where.
//
//     {"ops": [{"match": "/encoder/*", "devices": [0, "gpu1"]}],   only these devices
//      "together": ["/emb*", "/head"]}                             all matched ops on one device
//
// `match` and the entries of `together` are globs over op names, or over blocks (layers) as
// `inspect --ops` lists them: `*` stands for any text, `?` for one character. Devices are numbers
// or names of the machine. Where several entries match an op, all of them hold. `together` may also
// be a list of such lists, each for a device of its own.
//
// Throws InputError naming the entry: an unknown key or device, a glob that matches no op, entries
// that leave an op no device. `degrees` and `max_degree` would fix how ops are split, which this
// version cannot; they are refused.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"

namespace partita::api {

/// Adds what `file` says to `constraints`. Returns what each glob matched, a line for each.
std::vector<std::string> read_constraints(const std::filesystem::path& file,
                                          const graph::OpGraph& graph, const cost::Machine& machine,
                                          plan::Constraints& constraints);

}  // namespace partita::api
