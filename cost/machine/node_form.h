// SPDX-License-Identifier: Apache-2.0
//
// The node form of machine files (docs/file-formats.md): kinds of devices, links and nodes, and how
// many of each, expanded to a Machine.
//
//     "nodes": [{"name": "node", "count": 4,
//                "devices": [{"name": "gpu", "count": 4, "type": "p100"}],
//                "switches": ["host"],
//                "links": [{"from": "gpu*", "to": "gpu*", "type": "nvlink"},     each pair
//                          {"from": "gpu*", "to": "host", "type": "pcie"},
//                          {"from": "host", "to": "/network", "type": "edr"}]}]
//
// makes node0/gpu0, ..., node3/gpu3; with one node in all the prefix is left out. An end is a
// device (gpu2), all devices of a group (gpu*), a switch of the node, or after a slash one that all
// nodes share. The devices of a node may be a torus: {"extents": [4, 8], "type": "ici"}, linked along each
// axis. A smaller size drops the last devices of each node together with their links.
// Counts are checked before anything is made: a file of 100 bytes cannot ask for millions.
//
// Errors: InputError naming the field; UsageError for a size that the machine cannot have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cost/machine/machine.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {

/// What a Machine is built from.
struct MachineParts {
    std::string name;
    std::vector<Device> devices;
    std::vector<std::string> switches;
    std::vector<Link> links;
    MachineCollectives collectives;
};

MachineParts expand_nodes(const JsonField& root, const MachineSize& size);

/// The machine in this form, `indent` as in to_json(); null: it has nodes or names that the form cannot
/// say, or links with names of their own.
std::optional<std::string> node_form_json(const Machine& machine, int indent);

}  // namespace partita::cost
