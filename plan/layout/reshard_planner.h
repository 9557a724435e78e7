// SPDX-License-Identifier: Apache-2.0
//
// Finds reshards (reshard.h), with memory that it keeps: who plans thousands of them keeps one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/union_find.h"
#include "cost/machine/machine.h"
#include "plan/layout/layout.h"
#include "plan/layout/reshard.h"
#include "plan/layout/reshard_collectives.h"

namespace partita::plan {

class ReshardPlanner {
public:
    /// `from` is where a tensor lies: regions of a summand are equal or disjoint (windowed
    /// gradients, whose summands differ, excepted). `to` is not partial, or has the summands of
    /// `from`. Deterministic; O(pieces of `from` * pieces of `to`). The memory that is kept has the
    /// size of the largest reshard so far.
    Reshard plan(const Layout& from, const Layout& to, RegionTable& regions,
                 const cost::Machine& machine);

private:
    /// Some of a list.
    struct Run {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
    };
    /// Pieces of the old layout with equal region and summand, in order of parts.
    struct Slot {
        std::int32_t region = -1;
        std::int32_t summand = 0;
        Run replicas;
    };
    /// One slot that a new piece needs: the replica it takes, and which of its elements.
    struct Need {
        std::int32_t source = -1;  ///< piece of the old layout
        std::int32_t region = -1;  ///< intersection with the new piece
    };
    /// Ends of a transfer's runs in the lists.
    struct Ends {
        std::size_t sources = 0;
        std::size_t results = 0;
        std::size_t devices = 0;
    };

    void clear();
    void find_slots();
    void find_needs();
    [[nodiscard]] std::int32_t replica_for(std::size_t target, const Slot& slot);
    void rank_equals(const Layout& layout, std::vector<std::int32_t>& ranks);
    void find_ranks();
    [[nodiscard]] std::int32_t own_source(int device) const;
    [[nodiscard]] int distance(int a, int b) const;
    void find_groups();
    [[nodiscard]] bool is_served_locally(std::int32_t target) const;
    Exchange exchange_of(std::span<const std::int32_t> group);
    bool add_collective(std::span<const std::int32_t> group);
    void add_ranks(cost::Collective kind, std::span<const int> from, std::span<const int> to);
    void add_copies(std::int32_t target);
    void add_copy(std::int32_t target, const Need& need);
    void close_transfer();
    void note_packing(Transfer& transfer, std::span<Delivery> results);
    [[nodiscard]] bool overlap(std::span<const Need> needs) const;
    [[nodiscard]] bool can_resolve();
    [[nodiscard]] Layout resolved() const;
    [[nodiscard]] Reshard given();

    [[nodiscard]] const Piece& source(std::int32_t i) const {
        return from_->pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const Piece& target(std::int32_t i) const {
        return to_->pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] std::span<const Need> needs(std::int32_t target) const {
        const Run& run = needs_of_[static_cast<std::size_t>(target)];
        return {needs_.data() + run.begin, needs_.data() + run.end};
    }
    [[nodiscard]] std::span<const std::int32_t> replicas(const Slot& slot) const {
        return {replicas_.data() + slot.replicas.begin, replicas_.data() + slot.replicas.end};
    }

    const Layout* from_ = nullptr;
    const Layout* to_ = nullptr;
    RegionTable* regions_ = nullptr;
    const cost::Machine* machine_ = nullptr;
    std::vector<Slot> slots_;
    std::vector<std::int32_t> slot_of_source_;  ///< per old piece; -1: it holds nothing
    std::vector<std::int32_t> rank_of_source_;  ///< per old piece: its place among its replicas
    std::vector<std::int32_t> rank_of_target_;  ///< per new piece: its place among its equals
    std::vector<std::int32_t> own_source_;      ///< by device, of this reshard or one before
    std::vector<std::int32_t> replicas_;        ///< of all slots
    std::vector<std::int32_t> nearest_;         ///< replicas
    std::vector<Need> needs_;
    std::vector<Run> needs_of_;        ///< per new piece
    std::vector<std::int32_t> order_;  ///< while something is sorted
    std::vector<std::int32_t> first_equal_;
    UnionFind needed_together_;           ///< old pieces, while groups are found
    std::vector<std::int32_t> group_of_;  ///< per old piece that is a root
    std::vector<std::int32_t> remote_;    ///< new pieces that need something from elsewhere
    std::vector<Run> groups_;             ///< of grouped_
    std::vector<std::int32_t> grouped_;   ///< remote_, group by group
    std::vector<std::int64_t> given_;     ///< per old piece, while a group is counted
    std::vector<std::int32_t> group_sources_;
    std::vector<Piece> group_pieces_;
    std::vector<int> group_devices_;
    bool resolves_in_place_ = false;  ///< to what resolved() gives
    // What comes out.
    std::vector<Transfer> transfers_;
    std::vector<Ends> ends_;  ///< per transfer
    std::vector<Supply> supplies_;
    std::vector<Run> items_of_;  ///< per new piece
    Reshard::Lists lists_;
};

}  // namespace partita::plan
