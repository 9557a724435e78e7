// SPDX-License-Identifier: Apache-2.0
//
// What several devices of a node need, all of it each, and no device of the node has: it comes into
// the node once, in slices, and is gathered there.
//
//     stage 0, node 0      in slices               into node 1              stage 1, node 1
//     0: all  1: all       0: half 0  1: half 1    2: half 0  3: half 1     2: all  3: all
//                 no transfer                copies               all-gather
//
// Of what lies in slices on other nodes already, the second half of that. Each device sends and
// gets one slice over the network instead of everything.
//
// Slices are one piece of memory each, if there are such, else strided: then they are packed.
//
// Only where that is quicker by the links of the machine, each transfer alone, elements of two
// bytes, packing for nothing: networks are slower than nodes, and what is small is sooner sent
// whole than gathered. Prices have no say, so that other prices find the same tasks.
//
// Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021, section 4.1 (scatter/gather).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cost/machine/machine.h"
#include "plan/layout/layout.h"
#include "plan/layout/reshard_needs.h"

namespace partita::plan {

/// Keeps its memory from one reshard to the next.
class ScatterGather {
public:
    /// The layout to go through first; nullopt: there is nothing to gain. `needs`: of the pair.
    /// O(n log n + needs).
    std::optional<Layout> through(const LayoutPair& pair, const ReshardNeeds& needs,
                                  RegionTable& regions, const cost::Machine& machine);

private:
    /// New pieces with all of a region each, by device.
    struct Group {
        std::int32_t region = -1;
        std::size_t begin = 0;
        std::size_t end = 0;
        [[nodiscard]] std::size_t size() const { return end - begin; }
    };
    void find_groups(const Layout& to);
    [[nodiscard]] bool enters_a_node(const Group& group, const LayoutPair& pair,
                                     const ReshardNeeds& needs, const cost::Machine& machine) const;
    [[nodiscard]] bool pays(const Group& group, const LayoutPair& pair, const ReshardNeeds& needs,
                            const RegionTable& regions, const cost::Machine& machine) const;
    [[nodiscard]] bool add_slices_at_sources(const Group& group, const LayoutPair& pair,
                                             const ReshardNeeds& needs, RegionTable& regions,
                                             Layout& through) const;
    [[nodiscard]] bool add_slices_at_targets(const Group& group, const LayoutPair& pair,
                                             const ReshardNeeds& needs, const RegionTable& regions,
                                             Layout& through) const;

    std::vector<std::pair<std::int32_t, std::int32_t>> by_region_;  ///< region, new piece
    std::vector<Group> groups_;
};

/// A region in so many equal slices, each one piece of its memory if possible; empty: no dim, nor
/// the first ones together, has so many parts.
std::vector<graph::Region> slices_of(const graph::Region& region, std::int64_t count);

}  // namespace partita::plan
