// SPDX-License-Identifier: Apache-2.0
//
// What every new piece of a reshard needs: from which old pieces, and which of their elements. Each
// old shard that shares elements with the new piece gives them by one of its replicas.
//
// Pieces that need the same share one list, for in collectives all n need something of all n:
//
//     all-gather         new pieces are alike: one list of old pieces, one of regions
//     all-reduce         the same, and the region is the same one
//     reduce-scatter     one list of old pieces; each new piece has its own region, of all of them
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/csr.h"
#include "cost/machine/machine.h"
#include "plan/layout/layout.h"
#include "plan/layout/overlap_index.h"
#include "plan/layout/replica_choice.h"
#include "plan/layout/shards.h"

namespace partita::plan {

/// From where a tensor lies to where it is needed.
struct LayoutPair {
    const Layout& from;
    const Layout& to;

    [[nodiscard]] const Piece& source(std::int32_t i) const {
        return from.pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const Piece& target(std::int32_t i) const {
        return to.pieces[static_cast<std::size_t>(i)];
    }
};

struct Need {
    std::int32_t source = -1;  ///< piece of the old layout
    std::int32_t region = -1;  ///< what it has in common with the new piece
};

/// Of a new piece, in the order of old shards.
class NeedList {
public:
    class Iterator {
    public:
        using difference_type = std::ptrdiff_t;
        using value_type = Need;
        Iterator() = default;
        Iterator(const NeedList* list, std::size_t i) : list_(list), i_(i) {}
        Need operator*() const { return (*list_)[i_]; }
        Iterator& operator++() {
            ++i_;
            return *this;
        }
        Iterator operator++(int) { return {list_, i_++}; }
        friend bool operator==(const Iterator& a, const Iterator& b) { return a.i_ == b.i_; }

    private:
        const NeedList* list_ = nullptr;
        std::size_t i_ = 0;
    };

    NeedList() = default;
    /// One region for all sources, or one for each.
    NeedList(std::span<const std::int32_t> sources, std::span<const std::int32_t> regions)
        : sources_(sources), regions_(regions) {}

    [[nodiscard]] std::size_t size() const { return sources_.size(); }
    [[nodiscard]] bool empty() const { return sources_.empty(); }
    [[nodiscard]] Need operator[](std::size_t i) const {
        return {sources_[i], regions_[has_one_region() ? 0 : i]};
    }
    [[nodiscard]] Iterator begin() const { return {this, 0}; }
    [[nodiscard]] Iterator end() const { return {this, size()}; }

    [[nodiscard]] std::span<const std::int32_t> sources() const { return sources_; }
    [[nodiscard]] bool has_one_region() const { return regions_.size() == 1; }

private:
    std::span<const std::int32_t> sources_;
    std::span<const std::int32_t> regions_;
};

/// Keeps its memory from one reshard to the next.
class ReshardNeeds {
public:
    /// `old`: the shards of pair.from. Takes from each the replica that ReplicaChoice prefers; with
    /// `same_ranks` that with the rank of the old piece that has the index of the new one. O(n log n
    /// + pairs of regions that overlap along the dim of OverlapIndex, plus, where old shards have
    /// replicas to choose from, needs * replicas).
    void find(const LayoutPair& pair, const Shards& old, bool same_ranks, RegionTable& regions,
              const cost::Machine& machine);

    [[nodiscard]] NeedList operator[](std::int32_t target) const { return list(row_of(target)); }

    // Of several new pieces at once: pieces of equal rows need the same, those of rows with equal
    // sources something of the same old pieces.
    [[nodiscard]] std::size_t rows() const { return rows_.size(); }
    [[nodiscard]] std::size_t source_lists() const { return sources_.rows(); }
    [[nodiscard]] std::size_t row_of(std::int32_t target) const {
        return row_of_[static_cast<std::size_t>(target)];
    }
    [[nodiscard]] NeedList list(std::size_t row) const {
        return {sources_[rows_[row].sources], regions_[rows_[row].regions]};
    }
    [[nodiscard]] std::size_t sources_of(std::size_t row) const { return rows_[row].sources; }

private:
    /// What a new shard has in common with an old region, or with a shard of it.
    struct Common {
        std::int32_t of = -1;
        std::int32_t region = -1;
    };
    /// Lists of sources_ and regions_.
    struct Row {
        std::uint32_t sources = 0;
        std::uint32_t regions = 0;
    };
    /// Shards of one region, as a range of by_region_.
    struct Run {
        std::int32_t first_shard = -1;
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    void group_by_region(const Shards& old);
    void find_overlaps(const Shard& needed, RegionTable& regions);
    void list_commons(const Shards& old, std::int32_t summand);
    std::uint32_t add_regions();
    std::uint32_t add_row(Row row);
    std::uint32_t row_of_region(const Shards& old, const Common& overlap);
    void add_rows(const LayoutPair& pair, const Shards& old, std::size_t shard, bool same_ranks);
    static std::uint32_t last_row(const Csr<std::int32_t>& lists) {
        return static_cast<std::uint32_t>(lists.rows()) - 1;
    }

    Shards new_;
    std::vector<std::pair<std::int32_t, std::int32_t>> by_region_;  ///< region, old shard; sorted
    std::vector<Run> runs_;
    std::vector<std::int32_t> old_regions_;         ///< all different
    Csr<std::int32_t> old_shards_;                  ///< per old region
    std::vector<char> has_replicas_;                ///< per old region: has a shard of it?
    std::vector<std::uint32_t> sources_of_region_;  ///< of all its shards; kNone: not listed yet
    std::vector<std::int32_t> new_regions_;         ///< per new shard
    OverlapIndex index_;                            ///< of the old regions
    std::vector<Common> overlaps_;                  ///< of old regions
    std::vector<Common> commons_;                   ///< of old shards
    ReplicaChoice choice_;
    std::vector<std::uint32_t> row_of_rank_;  ///< of old replicas
    Csr<std::int32_t> sources_;
    Csr<std::int32_t> regions_;
    std::vector<Row> rows_;
    std::vector<std::uint32_t> row_of_;  ///< per new piece
};

}  // namespace partita::plan
