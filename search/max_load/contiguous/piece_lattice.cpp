// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/piece_lattice.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/hash_index.h"

namespace partita::search {

namespace {

constexpr std::size_t kBits = 64;

/// Sets of vertices, all of the same number of words.
class SetList {
public:
    explicit SetList(std::size_t words) : words_(words) {}

    [[nodiscard]] std::span<const std::uint64_t> operator[](std::size_t i) const {
        return {bits_.data() + i * words_, words_};
    }
    [[nodiscard]] std::span<std::uint64_t> add(std::span<const std::uint64_t> set) {
        bits_.insert(bits_.end(), set.begin(), set.end());
        return {bits_.data() + bits_.size() - words_, words_};
    }
    void clear() { bits_.clear(); }

private:
    std::size_t words_;
    std::vector<std::uint64_t> bits_;
};

bool contains(std::span<const std::uint64_t> set, std::size_t vertex) {
    return ((set[vertex / kBits] >> (vertex % kBits)) & 1U) != 0;
}

void flip(std::span<std::uint64_t> set, std::size_t vertex) {
    set[vertex / kBits] ^= std::uint64_t{1} << (vertex % kBits);
}

}  // namespace

/// Level after level; of a level the sets and what can be added to each.
class LatticeBuilder {
public:
    LatticeBuilder(const PieceGraph& graph, std::size_t most)
        : graph_(graph),
          most_(most),
          words_(graph.size / kBits + 1),
          sets_(words_),
          ready_(words_),
          next_sets_(words_),
          next_ready_(words_),
          successors_(graph.size),
          predecessors_(graph.size) {
        for (const auto& [from, to] : graph.edges) {
            successors_[static_cast<std::size_t>(from)].push_back(static_cast<std::size_t>(to));
            predecessors_[static_cast<std::size_t>(to)].push_back(static_cast<std::size_t>(from));
        }
        std::vector<std::uint64_t> none(words_, 0);
        static_cast<void>(sets_.add(none));
        const auto ready = ready_.add(none);
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (predecessors_[v].empty()) flip(ready, v);
            keys_.push_back(key_of(v));
        }
        level_hashes_ = {0};
    }

    std::optional<PieceLattice> build() {
        for (std::size_t level = 0; level < graph_.size; ++level) {
            if (!grow()) return std::nullopt;
        }
        return std::move(lattice_);
    }

private:
    struct Cover {
        std::uint32_t upper = 0;  ///< in the next level
        PieceLattice::Step step;
    };

    static std::uint64_t key_of(std::size_t vertex) {
        Hash hash;
        hash.add(static_cast<std::int64_t>(vertex));
        return hash.value();
    }

    /// The place of that set in the next level.
    std::uint32_t find_or_add(std::size_t lower, std::size_t vertex) {
        scratch_.assign(sets_[lower].begin(), sets_[lower].end());
        flip(scratch_, vertex);
        const std::uint64_t hash = level_hashes_[lower] ^ keys_[vertex];
        const std::int32_t known = index_.find(hash, [&](std::int32_t i) {
            return std::ranges::equal(next_sets_[static_cast<std::size_t>(i)], scratch_);
        });
        if (known >= 0) return static_cast<std::uint32_t>(known);
        const auto place = static_cast<std::uint32_t>(next_hashes_.size());
        index_.add(hash, static_cast<std::int32_t>(place));
        next_hashes_.push_back(hash);
        static_cast<void>(next_sets_.add(scratch_));
        const auto ready = next_ready_.add(ready_[lower]);
        flip(ready, vertex);
        for (const std::size_t to : successors_[vertex]) {
            const auto& before = predecessors_[to];
            const bool all = std::ranges::all_of(
                before, [&](std::size_t from) { return contains(scratch_, from); });
            if (all) flip(ready, to);
        }
        return place;
    }

    /// Adds the next level; false: too many ideals.
    bool grow() {
        const std::size_t begin = lattice_.level_begin_[lattice_.level_begin_.size() - 2];
        index_ = {};
        covers_.clear();
        next_hashes_.clear();
        next_sets_.clear();
        next_ready_.clear();
        for (std::size_t i = 0; i < level_hashes_.size(); ++i) {
            for (std::size_t word = 0; word < words_; ++word) {
                for (std::uint64_t left = ready_[i][word]; left != 0; left &= left - 1) {
                    const std::size_t vertex =
                        word * kBits + static_cast<std::size_t>(std::countr_zero(left));
                    const std::uint32_t upper = find_or_add(i, vertex);
                    covers_.push_back({upper,
                                       {static_cast<std::int32_t>(vertex),
                                        static_cast<std::uint32_t>(begin + i)}});
                }
            }
            if (lattice_.size() + next_hashes_.size() > most_) return false;
        }
        append_level();
        std::swap(sets_, next_sets_);
        std::swap(ready_, next_ready_);
        std::swap(level_hashes_, next_hashes_);
        return true;
    }

    void append_level() {
        std::sort(covers_.begin(), covers_.end(), [](const Cover& a, const Cover& b) {
            return a.upper != b.upper ? a.upper < b.upper : a.step.vertex > b.step.vertex;
        });
        for (std::size_t i = 0; i < covers_.size(); ++i) {
            lattice_.steps_.push_back(covers_[i].step);
            const bool last = i + 1 == covers_.size() || covers_[i + 1].upper != covers_[i].upper;
            if (last) lattice_.offsets_.push_back(lattice_.steps_.size());
        }
        lattice_.level_begin_.push_back(lattice_.size());
    }

    const PieceGraph& graph_;
    std::size_t most_;
    std::size_t words_;
    SetList sets_;
    SetList ready_;
    SetList next_sets_;
    SetList next_ready_;
    std::vector<std::vector<std::size_t>> successors_;
    std::vector<std::vector<std::size_t>> predecessors_;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint64_t> level_hashes_;
    std::vector<std::uint64_t> next_hashes_;
    std::vector<std::uint64_t> scratch_;
    std::vector<Cover> covers_;
    HashIndex index_;
    PieceLattice lattice_;
};

std::optional<PieceLattice> PieceLattice::all(const PieceGraph& graph, std::size_t most) {
    return LatticeBuilder(graph, most).build();
}

PieceLattice PieceLattice::prefixes(std::size_t vertices) {
    PieceLattice lattice;
    for (std::size_t v = 0; v < vertices; ++v) {
        lattice.steps_.push_back({static_cast<std::int32_t>(v), static_cast<std::uint32_t>(v)});
        lattice.offsets_.push_back(v + 1);
        lattice.level_begin_.push_back(v + 2);
    }
    return lattice;
}

}  // namespace partita::search
