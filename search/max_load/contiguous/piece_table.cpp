// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/piece_table.h"

#include <algorithm>
#include <atomic>
#include <cassert>

namespace partita::search {

namespace {

/// A level is dealt out to so many walks.
constexpr std::size_t kWalks = 16;

/// Rounding must not leave out a plan.
constexpr double kMargin = 1 + 1e-9;

}  // namespace

PieceTable::PieceTable(const PieceGraph& graph, const PieceDevices& devices, PieceLattice lattice,
                       std::int64_t limit)
    : graph_(graph),
      devices_(devices),
      lattice_(std::move(lattice)),
      incidence_(make_incidence(graph)),
      limit_(limit),
      walks_(kWalks) {
    assert(limit < kNever);
    find_speeds();
    weigh_ideals();
    best_.assign(lattice_.size() * devices_.states, kNever);
    std::fill_n(best_.begin(), devices_.states, 0);
    if (whole_ == kNever) level_ = lattice_.levels();
}

PieceTable::~PieceTable() = default;

/// A vertex weighs its time on its best kind. Of other kinds, a unit of time does at most as much
/// weight as of the vertex for which it is best.
void PieceTable::find_speeds() {
    std::vector<double> speed(graph_.kinds, 0);
    for (std::size_t v = 0; v < graph_.size; ++v) {
        std::int64_t weight = kNever;
        for (std::size_t k = 0; k < graph_.kinds; ++k) weight = std::min(weight, graph_.time(v, k));
        whole_ = std::min(kNever, whole_ + weight);
        for (std::size_t k = 0; k < graph_.kinds; ++k) {
            const std::int64_t time = graph_.time(v, k);
            if (time == 0 || time == kNever) continue;
            speed[k] = std::max(speed[k], static_cast<double>(weight) / static_cast<double>(time));
        }
    }
    for (std::size_t state = 0; state < devices_.states; ++state) {
        double used = 0;
        double left = 0;
        for (std::size_t k = 0; k < graph_.kinds; ++k) {
            const std::size_t count = devices_.used(k, state);
            used += static_cast<double>(count) * speed[k];
            left += static_cast<double>(devices_.kinds[k].devices.size() - count) * speed[k];
        }
        used_speed_.push_back(used * kMargin);
        left_speed_.push_back(left * kMargin);
    }
}

void PieceTable::weigh_ideals() {
    weight_.assign(lattice_.size(), 0);
    for (std::size_t ideal = 1; ideal < lattice_.size(); ++ideal) {
        const PieceLattice::Step& step = lattice_.steps(ideal).front();
        std::int64_t weight = kNever;
        for (std::size_t k = 0; k < graph_.kinds; ++k) {
            weight = std::min(weight, graph_.time(static_cast<std::size_t>(step.vertex), k));
        }
        weight_[ideal] = std::min(kNever, weight_[step.ideal] + weight);
    }
}

/// Could some devices do all of it within the limit, and the others all of the rest?
bool PieceTable::is_useful(std::size_t ideal) const {
    const auto limit = static_cast<double>(limit_);
    const auto done = static_cast<double>(weight_[ideal]);
    const auto rest = static_cast<double>(whole_ - weight_[ideal]);
    for (std::size_t state = 0; state < devices_.states; ++state) {
        if (used_speed_[state] * limit >= done && left_speed_[state] * limit >= rest) return true;
    }
    return false;
}

bool PieceTable::advance(std::int64_t pairs, const Parallel& parallel) {
    std::atomic<std::int64_t> looked_at = 0;
    while (level_ < lattice_.levels() && looked_at < pairs) {
        const std::size_t begin = lattice_.level_begin(level_);
        const std::size_t end = lattice_.level_begin(level_ + 1);
        const auto share = [&](std::size_t which) {
            if (!walks_[which]) {
                walks_[which] = std::make_unique<PieceWalk>(graph_, devices_, lattice_, incidence_);
            }
            std::int64_t calls = 0;
            for (std::size_t ideal = begin + which; ideal < end; ideal += kWalks) {
                if (is_useful(ideal)) calls += fill(ideal, *walks_[which]);
            }
            looked_at += calls;
        };
        const std::size_t shares = std::min(kWalks, end - begin);
        if (shares > 1) {
            parallel(shares, share);
        } else {
            share(0);
        }
        ++level_;
    }
    pairs_ += looked_at;
    return level_ >= lattice_.levels();
}

std::int64_t PieceTable::fill(std::size_t ideal, PieceWalk& walk) {
    std::int64_t* mine = row(ideal);
    const std::int64_t calls =
        walk.below(ideal, limit_, [&](std::size_t below, const std::int64_t* loads) {
            const std::int64_t* theirs = row(below);
            for (std::size_t k = 0; k < graph_.kinds; ++k) {
                const std::int64_t load = loads[k];
                if (load > limit_) continue;
                const PieceKind& kind = devices_.kinds[k];
                for (const std::uint32_t from : kind.from) {
                    const std::int64_t value = std::max(theirs[from], load);
                    std::int64_t& known = mine[from + kind.stride];
                    known = std::min(known, value);
                }
            }
            return true;
        });
    close(ideal);
    return calls;
}

/// Devices may stay without a piece. States whose devices left cannot do the rest are given up.
void PieceTable::close(std::size_t ideal) {
    std::int64_t* mine = row(ideal);
    for (const PieceKind& kind : devices_.kinds) {
        for (const std::uint32_t from : kind.from) {
            std::int64_t& known = mine[from + kind.stride];
            known = std::min(known, mine[from]);
        }
    }
    const auto rest = static_cast<double>(whole_ - weight_[ideal]);
    for (std::size_t state = 0; state < devices_.states; ++state) {
        if (left_speed_[state] * static_cast<double>(limit_) < rest) mine[state] = kNever;
    }
}

std::int64_t PieceTable::value() const {
    return whole_ == kNever ? kNever : best_.back();
}

/// The state with the fewest devices that has the same value.
std::size_t PieceTable::fewest_used(std::size_t ideal, std::size_t state) {
    const std::int64_t* values = row(ideal);
    for (bool again = true; again;) {
        again = false;
        for (const PieceKind& kind : devices_.kinds) {
            if (state < kind.stride) continue;
            const auto from = static_cast<std::uint32_t>(state - kind.stride);
            if (!std::binary_search(kind.from.begin(), kind.from.end(), from)) continue;
            if (values[from] != values[state]) continue;
            state = from;
            again = true;
        }
    }
    return state;
}

PieceTable::Piece PieceTable::last_piece(std::size_t ideal, std::size_t state) {
    if (!walks_[0]) walks_[0] = std::make_unique<PieceWalk>(graph_, devices_, lattice_, incidence_);
    const std::int64_t value = row(ideal)[state];
    Piece piece;
    bool found = false;
    walks_[0]->below(ideal, limit_, [&](std::size_t below, const std::int64_t* loads) {
        for (std::size_t k = 0; k < graph_.kinds && !found; ++k) {
            const PieceKind& kind = devices_.kinds[k];
            if (state < kind.stride || loads[k] > limit_) continue;
            const auto from = static_cast<std::uint32_t>(state - kind.stride);
            if (!std::binary_search(kind.from.begin(), kind.from.end(), from)) continue;
            if (std::max(row(below)[from], loads[k]) != value) continue;
            piece = {below, k};
            found = true;
        }
        return !found;
    });
    assert(found);
    return piece;
}

std::vector<int> PieceTable::devices_of_vertices() {
    std::vector<int> devices(graph_.size, -1);
    std::size_t ideal = lattice_.size() - 1;
    std::size_t state = devices_.states - 1;
    while (ideal > 0) {
        state = fewest_used(ideal, state);
        const Piece piece = last_piece(ideal, state);
        const PieceKind& kind = devices_.kinds[piece.kind];
        const int device =
            kind.devices[devices_.in_turn ? 0 : devices_.used(piece.kind, state) - 1];
        // A way down meets the vertices of the piece and all below, which later pieces take over.
        for (std::size_t at = ideal; !lattice_.steps(at).empty();) {
            const PieceLattice::Step& step = lattice_.steps(at).front();
            devices[static_cast<std::size_t>(step.vertex)] = device;
            at = step.ideal;
        }
        ideal = piece.below;
        state -= kind.stride;
    }
    return devices;
}

}  // namespace partita::search
