// SPDX-License-Identifier: Apache-2.0
//
// A mixed-integer linear program, and what a solver says of it:
//
//     minimise  cost . x    with   row_lower <= A x <= row_upper,   lower <= x <= upper,
//                                  x[c] a whole number where integral[c]
//
// Solvers compute in floating point and with tolerances: what they say holds to these, and is no
// proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace partita::search {

struct Milp {
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    std::vector<double> cost;   ///< per column, as the next three
    std::vector<double> lower;  ///< -kInfinity: none
    std::vector<double> upper;  ///< kInfinity: none
    std::vector<char> integral;
    std::vector<double> row_lower;  ///< per row, as the next
    std::vector<double> row_upper;
    std::vector<std::int32_t> start{0};  ///< of the entries of each row, and their number
    std::vector<std::int32_t> index;     ///< column of each entry; no column twice in a row
    std::vector<double> value;           ///< of each entry

    [[nodiscard]] std::size_t columns() const { return cost.size(); }
    [[nodiscard]] std::size_t rows() const { return row_lower.size(); }
    [[nodiscard]] std::size_t entries() const { return index.size(); }

    /// Its number.
    std::int32_t add_column(double least, double most, bool whole, double price = 0) {
        cost.push_back(price);
        lower.push_back(least);
        upper.push_back(most);
        integral.push_back(whole ? 1 : 0);
        return static_cast<std::int32_t>(columns() - 1);
    }
    /// In the row that end_row() ends.
    void add_entry(std::int32_t column, double factor) {
        index.push_back(column);
        value.push_back(factor);
    }
    void end_row(double least, double most) {
        row_lower.push_back(least);
        row_upper.push_back(most);
        start.push_back(static_cast<std::int32_t>(entries()));
    }
};

struct MilpOptions {
    double tolerance = 1e-9;   ///< of rows, bounds and whole numbers; 1e-10 or more
    double heuristics = 0.05;  ///< share of the iterations that looks for better x; 0 to 1
    std::int32_t seed = 1;     ///< >= 0
    std::int64_t iterations = std::numeric_limits<std::int64_t>::max();  ///< of simplex, about
    double seconds = Milp::kInfinity;                                    ///< of the clock
    std::function<bool()> stop;  ///< asked now and then; true: ends early. Throws nothing
};

enum class MilpStatus : std::uint8_t {
    optimal,     ///< x is, and bound is its cost
    infeasible,  ///< there is no x
    stopped,     ///< by one of the limits
    failed,      ///< the solver gave up
};

struct MilpResult {
    MilpStatus status = MilpStatus::failed;
    double bound = -Milp::kInfinity;  ///< no x costs less; of an infeasible one kInfinity
    std::vector<double> x;            ///< the best found; empty: none
    std::int64_t iterations = 0;
    std::int64_t nodes = 0;
};

}  // namespace partita::search
