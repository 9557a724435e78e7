// SPDX-License-Identifier: Apache-2.0
//
// Which nodes of a machine are alike. A cluster of two thousand nodes is one node, so many times:
// what holds for two of them holds for any two, and need not be kept for each.
//
//     network, node0/{gpu0, gpu1, switch}, node1/{gpu0, gpu1, switch}, ...    one run of two devices,
//                                                                             a switch and its links
//
// Found in the lists of devices, switches and links, so that machine files of both forms have it.
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cost/machine/machine.h"

namespace partita::cost {

/// Nodes that follow one another and are alike: devices of the same figures, as many switches, and
/// links of the same figures between the same of them and the same shared switches, in one order.
struct NodeRun {
    int count = 0;  ///< nodes, >= 1
    int first_device = 0;
    int first_switch = 0;
    int first_link = 0;
    int devices = 0;  ///< of a node, and so on
    int switches = 0;
    int links = 0;
};

/// Of at least one device. All runs in rising order, or empty where the machine does not consist of
/// switches that all share, at the front of the list, and of nodes one behind the other: 0, 1, ...,
/// with their devices, switches and links in this order, no link between two nodes or two shared
/// switches.
std::vector<NodeRun> runs_of_nodes(std::span<const Device> devices,
                                   std::span<const std::string> switches,
                                   std::span<const Link> links);

}  // namespace partita::cost
