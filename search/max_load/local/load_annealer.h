// SPDX-License-Identifier: Apache-2.0
//
// Simulated annealing of assignments to devices, for the least largest load (load_graph.h).
//
// The largest load alone is a flat landscape: most moves leave it as it is. So what is annealed is
// the sum over devices of what each has above a share of the target, the least largest load of the
// run so far:
//
//     energy(d) = max(0, 1 + (load(d) / target - 1) * sharpness)^2      + bytes above capacity, dear
//
//     sharpness 60: loads count from 98.3 % of the target on, 200: from 99.5 % on
//
// The temperature stays, the sharpness rises geometrically: the same moves become dearer, and in
// the end only devices next to the target count. Best of the run is what has least (overflow,
// largest load), not energy.
//
// Moves, from one device to another, the latter half of the time that of a neighbour:
//
//     vertex     v goes                            swap             v goes, some u comes back
//     block      v and what hangs together with    exchange         a block goes, a block comes back
//                it there, 2 to a quarter of all
//
// Blocks carry pieces over barriers that single vertices do not pass, because every cut between has
// a cost; exchanges do so where loads are balanced. A block is as large as a power of two drawn
// uniformly.
//
// Optimal: no. Ends: after its work, which counts a draw and every vertex moved, back ones too.
// Random: from the given stream alone. Threads: one object per thread. No allocation after the
// first moves.
// Source: Kirkpatrick, Gelatt, Vecchi, Science 220, 1983; the moves and the energy are ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "search/max_load/model/load_graph.h"
#include "search/max_load/model/load_state.h"
#include "search/support/random.h"

namespace partita::search {

struct LoadAnnealing {
    std::int64_t work = 1'000'000;  ///< > 0
    double first_sharpness = 60;    ///< >= 1
    double last_sharpness = 200;    ///< >= first_sharpness
    double temperature = 0.05;      ///< of energies; > 0
};

class LoadAnnealer {
public:
    /// `problem` must outlive it.
    LoadAnnealer(const LoadProblem& problem, Random random);

    struct Steps {
        std::int64_t proposals = 0;
        std::int64_t acceptances = 0;
        std::int64_t work = 0;
    };

    /// A new run from there.
    void begin(std::span<const std::int32_t> start, const LoadAnnealing& options);
    /// Goes on with the run for so many proposals, fewer where the run ends or `stopped`, which is
    /// asked every thousand or so.
    Steps advance(std::int64_t proposals, const std::function<bool()>& stopped);
    [[nodiscard]] bool over() const { return work_ >= options_.work; }

    /// Of this run.
    [[nodiscard]] const LoadScore& best_score() const { return best_score_; }
    [[nodiscard]] const std::vector<std::int32_t>& best() const { return best_; }
    [[nodiscard]] const LoadState& state() const { return state_; }

    /// Any allowed device for each vertex.
    [[nodiscard]] std::vector<std::int32_t> random_start();

private:
    /// From `from` to `to`; with what was drawn for acceptance.
    struct Draw {
        std::size_t vertex = 0;
        std::size_t from = 0;
        std::size_t to = 0;
        double limit = 0;  ///< accepted when the energy rises by no more
    };
    enum class Outcome : std::uint8_t { nothing, rejected, accepted };

    Outcome step();
    bool draw(Draw& draw);
    std::size_t draw_target(std::size_t vertex);
    bool draw_partner(const Draw& draw, std::size_t& partner);
    Outcome move_vertex(const Draw& draw);
    Outcome swap(const Draw& draw);
    Outcome move_block(const Draw& draw);
    Outcome exchange_blocks(const Draw& draw);
    Outcome decide(const Draw& draw);
    void grow_block(std::size_t vertex, std::size_t to, std::vector<std::int32_t>& block);
    void move_all(const std::vector<std::int32_t>& block, std::size_t to);
    void sharpen();
    void note();
    [[nodiscard]] double energy(std::size_t device, std::int64_t load, std::int64_t bytes) const;
    [[nodiscard]] double energy(std::size_t device) const;

    const LoadProblem& problem_;
    LoadState state_;
    Random random_;
    LoadAnnealing options_;
    std::int64_t work_ = 0;
    std::int64_t next_sharpening_ = 0;
    double slope_ = 0;   ///< sharpness / target
    double offset_ = 0;  ///< 1 - sharpness
    std::vector<double> energies_;
    std::vector<std::int32_t> block_;
    std::vector<std::int32_t> other_block_;
    std::vector<char> moved_;  ///< by the exchange at hand, or in the block that grows
    double most_doublings_ = 0;
    LoadScore best_score_;
    std::vector<std::int32_t> best_;
};

}  // namespace partita::search
