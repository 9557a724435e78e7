// SPDX-License-Identifier: Apache-2.0
//
// What no assignment of a load graph's vertices to the devices they may still use can beat. Let
// x[v][d] in {0, 1} say that v lies on d, t[v][d] and b[v] its time and bytes, c[n] the cost of net
// n. The program
//
//     minimise T   with   sum_d x[v][d] = 1,   sum_v b[v] x[v][d] <= C[d],
//                         sum_v t[v][d] x[v][d] + sum_n c[n] y[n][d] <= T,
//                         y[n][d] >= x[p][d] - x[q][d]   for all pins p, q of n, where d communicates
//
// has this dual bound, for any weights w[d] >= 0 (not all 0), byte prices z[d] >= 0 and flows
// f[n][p][d] over the pins p of a net that add up to 0 or less, their positive ones to c[n] w[d] at
// most:
//
//     T  >=  ( sum_v min_d r[v][d]  -  sum_d z[d] C[d] ) / sum_d w[d],
//     r[v][d]  =  w[d] t[v][d] + z[d] b[v] + sum_{n with pin v} f[n][v][d]
//
// since what a net costs is at least what flows from its pins on d to those elsewhere. Poor prices
// cost tightness, never soundness: they are found in floating point, and the bound follows from
// them in 128-bit integers. With r[v][d] in place of the smallest, it bounds the plans with v on d.
//
// Where the largest load is to be less than a target, more rows of the kind of the second follow,
// and are used in the same way: search/max_load/branch_and_bound/load_rows.h.
//
// Prices: ascent along averaged subgradients, steps as long as they would have to be to reach the
// target.
// Source: weak duality; Barahona, Anbil, Math. Prog. 87(3), 2000, doi:10.1007/s101070050002
// (averages); Polyak, USSR Comput. Math. 9(3), 1969, doi:10.1016/0041-5553(69)90061-5 (steps).
// Time: pins * devices per step, some ns each. Threads: one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "search/max_load/branch_and_bound/load_rows.h"
#include "search/max_load/model/load_graph.h"

namespace partita::search {

/// Devices that a vertex may use, bit d for device d.
using DeviceMask = std::uint64_t;

inline constexpr std::size_t kMostMaskDevices = 64;

/// Multipliers of the program above.
struct LoadPrices {
    std::vector<double> weight;  ///< per row and device, their sum is 1
    std::vector<double> bytes;   ///< per device, picoseconds per byte
    std::vector<double> flow;    ///< per pin and device, picoseconds
};

/// What a node of a search is bounded by.
struct LoadNode {
    std::span<const DeviceMask> masks;  ///< none empty
    std::span<const std::int64_t>
        loads;  ///< per device, what is certain, of the vertices that go nowhere else
};

class LoadRelaxation {
public:
    /// `problem` must outlive it; it has at most kMostMaskDevices devices.
    explicit LoadRelaxation(const LoadProblem& problem);

    /// Only assignments with a largest load less than that count from now on. Prices of other
    /// targets do not fit afterwards.
    void set_target(std::int64_t target);

    /// Weights by how much there is to do, no flows.
    [[nodiscard]] LoadPrices start() const;

    /// Betters prices for this node, in so many steps or until the bound reaches the target.
    /// Returns the bound in floating point, of the best prices seen, which `prices` then holds.
    double ascend(const LoadNode& node, int steps, LoadPrices& prices);

    /// Do these prices prove that no assignment within the masks that fits the memory is below the
    /// target?
    [[nodiscard]] bool prunes(const LoadNode& node, const LoadPrices& prices);

    /// After prunes(): do the same prices prove it of assignments with v on d?
    [[nodiscard]] bool excludes(std::size_t v, std::size_t d) const;

    /// After ascend(): the share of v on d, averaged over steps; 0 to 1.
    [[nodiscard]] double share(std::size_t v, std::size_t d) const {
        return mean_[v * devices_ + d];
    }

private:
    void set_rows(const LoadNode& node);
    void price_vertices(const LoadPrices& prices);
    double choose(const LoadNode& node, const LoadPrices& prices);
    void average(double share);
    void measure(const LoadPrices& prices);
    void measure_nets(const LoadPrices& prices);
    void shift_flows(double lack, LoadPrices& prices);
    void shift_weights(double lack, LoadPrices& prices);
    void shift_bytes(double lack, LoadPrices& prices);
    void set_integers(const LoadPrices& prices);
    void add_flow(std::span<const std::int32_t> pins, const double* flow, double scale, Int128 room,
                  std::size_t d);

    const LoadProblem& problem_;
    const LoadGraph& graph_;
    std::size_t devices_;
    int bits_;    ///< of the fraction, as integers
    bool tight_;  ///< memory may matter
    LoadRows rows_;
    double target_ = 0;
    std::int64_t limit_ = 0;          ///< the largest load allowed
    std::vector<double> reduced_;     ///< r, per vertex and device
    std::vector<std::int32_t> best_;  ///< device of each vertex
    std::vector<double> mean_;        ///< x averaged, per vertex and device
    std::vector<double> used_;        ///< bytes of the averaged x, per device
    std::vector<double> slope_;       ///< per pin and device
    std::vector<Int128> exact_;       ///< r, per vertex and device
    std::vector<Int128> least_;       ///< per vertex
    std::vector<std::int64_t> byte_price_;
    std::vector<double> less_;          ///< per row and device, than the limit is allowed there
    std::vector<double> load_;          ///< of the averaged x, per row and device
    std::vector<double> factor_;        ///< of the weights, in one step
    std::vector<std::int64_t> weight_;  ///< per row and device
    LoadPrices tried_;
    std::vector<std::int64_t> whole_flow_;
    Int128 price_ = 0;  ///< left side of the bound times all weights
    Int128 weights_ = 0;
};

}  // namespace partita::search
