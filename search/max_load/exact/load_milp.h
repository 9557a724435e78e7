// SPDX-License-Identifier: Apache-2.0
//
// The least largest load of a load problem (search/max_load/model/load_graph.h) as a mixed-integer
// linear program. x[v][d] says that v lies on d; on a device d that communicates some[n][d] that
// net n has a pin there, and all[n][d] that it has no pin elsewhere:
//
//     minimise T   with   sum_d x[v][d] = 1,   sum_v b[v] x[v][d] <= C[d],
//                         sum_v t[v][d] x[v][d] + sum_n c[n] (some[n][d] - all[n][d]) <= T,
//                         all[n][d] <= x[p][d] <= some[n][d]   for all pins p of n
//
// Of two pins all[n][d] = x[p][d] + x[q][d] - some[n][d]. Only x must be whole numbers: some and
// all then are by themselves. Devices of a kind may change names: the heaviest vertex may only go
// to the first of them, the next one to the first two, and so on, which some best placement
// satisfies.
//
// T counts in units of the limit, so that tolerances of a solver are shares of it. What is known of
// it from below is not said: up to there all nodes of a solver's tree would look alike (BERT-24:
// 34,967 nodes instead of 703).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/max_load/exact/milp.h"
#include "search/max_load/model/load_graph.h"

namespace partita::search {

class LoadMilp {
public:
    /// Entries that the rows would have.
    [[nodiscard]] static std::size_t entries(const LoadProblem& problem);

    /// Placements with a largest load of at most `limit` > 0. `problem` must outlive it.
    LoadMilp(const LoadProblem& problem, std::int64_t limit);

    [[nodiscard]] const Milp& program() const { return program_; }
    /// Device of each vertex.
    [[nodiscard]] std::vector<std::int32_t> devices(std::span<const double> x) const;
    /// Picoseconds of a T.
    [[nodiscard]] double load(double value) const { return value * unit_; }

private:
    void add_vertices();
    void break_symmetry();
    void add_nets();
    void add_memory();
    void add_loads();
    [[nodiscard]] std::int32_t column(std::size_t v, std::size_t d) const {
        return static_cast<std::int32_t>(v * problem_.devices.size() + d);
    }

    const LoadProblem& problem_;
    double unit_;  ///< the limit, picoseconds
    Milp program_;
    std::vector<std::int32_t> some_;  ///< column, per net and device; -1: none
    std::vector<std::int32_t> all_;   ///< the same
};

}  // namespace partita::search
