// SPDX-License-Identifier: Apache-2.0
//
// Reshards: from the layout in which a tensor lies to the layout in which it is needed.
//
//     every piece of the new layout asks: which pieces of the old one hold my elements, each summand
//     once, and which of their replicas is nearest? Pieces that need one another form a group:
//
//     old pieces of the group          new pieces                   transfer
//     all here already                                              none, a local slice
//     one                              one                          copy
//     one                              all of it | parts            broadcast | scatter
//     disjoint | summands              one                          gather    | reduce
//     disjoint, same devices           all of it | parts            all-gather | all-to-all
//     summands, same devices           all of it | parts            all-reduce | reduce-scatter
//     anything else                                                 copies of the intersections
//
// Parts may overlap where windows do: whoever gives them packs one message per rank. Messages are
// one piece of memory; where they are none of the old or the new piece (all but a split of its
// first dims that are longer than 1), they are packed or unpacked.
//
// A partial layout whose group has no name is first resolved in place (an all-reduce per region),
// then resharded. What several devices of a node need from other nodes goes there in slices
// (scatter_gather.h). Copies are always right, so every pair of layouts has a reshard.
//
// Whatever its name, a transfer means one thing: every element of a result is the combination of
// the elements at its position in the sources that hold it. Source: RULES.md 6, 11, 14.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/machine/machine.h"
#include "plan/layout/layout.h"

namespace partita::plan {

/// What a transfer leaves on a device.
struct Delivery {
    std::int32_t device = -1;
    std::int32_t region = -1;
    std::int32_t summand = 0;  ///< of a partial new layout
    bool unpack = false;       ///< what arrives from different ranks lies interleaved in it
};

struct Transfer {
    std::optional<cost::Collective> collective;  ///< none: a copy from one device to another
    std::span<const std::int32_t> sources;       ///< pieces of the old layout
    std::span<const char> pack;  ///< per source: what goes to one rank is strided in it
    std::span<const Delivery> results;
    std::span<const int> devices;  ///< ranks in order; the first is the root, if there is one
    std::int64_t elements = 0;     ///< as cost::CollectiveCall counts bytes, uneven parts padded
};

/// Where a piece of the new layout comes from.
struct Supply {
    struct Item {
        std::int32_t transfer = -1;  ///< -1: an old piece on the same device, read in place
        std::int32_t index = 0;      ///< old piece, or result of the transfer
    };
    std::span<const Item> items;
    bool sum = false;  ///< items overlap: they are added on the device
};

/// Transfers and supplies lie in `lists`, so it moves but is not copied.
struct Reshard {
    Reshard() = default;
    Reshard(Reshard&&) = default;
    Reshard& operator=(Reshard&&) = default;
    Reshard(const Reshard&) = delete;
    Reshard& operator=(const Reshard&) = delete;
    ~Reshard() = default;

    /// Go to this layout first; everything else is then a reshard from it.
    std::optional<Layout> through;
    std::vector<Transfer> transfers;
    std::vector<Supply> supplies;  ///< per piece of the new layout

    struct Lists {
        std::vector<std::int32_t> sources;
        std::vector<char> pack;
        std::vector<Delivery> results;
        std::vector<int> devices;
        std::vector<Supply::Item> items;
    } lists;
};

/// The piece of `from` on the same device that holds all elements of `piece`; -1: there is none.
std::int32_t local_source(const Layout& from, const Piece& piece, const RegionTable& regions);

/// Does every piece of `to` have a local source?
bool is_local(const Layout& from, const Layout& to, const RegionTable& regions);

}  // namespace partita::plan
