// SPDX-License-Identifier: Apache-2.0
//
// NCCL's tuning model for machines that nobody measured: the topology that NCCL's search would find
// is counted on the links of each group of devices.
//
//     node_bandwidth   of g ranks in a node: the largest of one ring, of what each sends when all
//                      send to all, (g-1) x bandwidth / flows, and of the links that every device
//                      has to the others. On a switch a device's link, on a mesh all its links, on
//                      a bus its share
//     nic_bandwidth    of rings over the j-th ranks of all nodes at once, the share of one
//     node_channels    2 x node_bandwidth / one NVLink of the generation, 2 to 24
//     net_latency      of those rings, beyond the 2.7 us of NCCL's own table
//     pci              where a hop of the ring takes 0.8 us or more: NCCL has 0.6 us for NVLink and
//                      1 us for PCI Express
//     nvls, collnet    where a switch of every node, or one that joins all devices, reduces
//
// Generation: the oldest GPU of the group. Devices that NCCL does not run on, and GPUs from before
// Volta, for which NCCL has no constants, are left to others.
//
// Threads: const. Errors: InputError for a bad data file. Source: NVIDIA/nccl src/graph/topo.h,
// search.cc and tuning.cc, REFERENCES.md 2. Differs: no search: rings that use all links of a
// mesh are taken to exist. NVLink's bandwidth is what the machine says. An Intel CPU is assumed.
#pragma once

#include <string>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/collectives/nccl_tuning.h"
#include "cost/machine/group_links.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// As NcclTopology counts generations; -1: NCCL has no constants for it. From its model, e.g.
/// "Tesla V100-SXM2-16GB", by data/collectives/nccl_gpus.json.
int nccl_generation_of(const Device& device);

/// What NCCL would find between the devices of `links`, two or more.
NcclTopology nccl_topology_of(const GroupLinks& links, const Machine& machine, int generation);

class NcclLinksModel final : public CollectiveModel {
public:
    /// For one machine, which alone it may be asked about.
    explicit NcclLinksModel(const Machine& machine);
    /// There are at least two devices that NCCL's constants are for.
    [[nodiscard]] bool knows_some() const;
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return "nccl"; }

private:
    std::vector<int> generations_;  ///< by device
};

}  // namespace partita::cost
