// SPDX-License-Identifier: Apache-2.0
//
// The configs that a search may give to an op: degrees x device sets, both by the number of parts.
//
//     parts   1, the divisors of the devices and of a node, powers of two
//     sets    stretches and strides of the machine's devices that start at multiples of themselves:
//                 2 of 8, stride 1    01 23 45 67         stride 4 (a node each)    04 15 26 37
//             and the same among the devices of the fastest kind, if there are several kinds
//     degrees one factor (in blocks too: factor_blocks.h), or two in either order, "*" (replicas)
//             among them; reductions too
//
// All are legal as plan/config.h has it, so constraints and --dims hold, for the problem's own number
// of micro-batches. Degrees are drawn evenly by the number of axes first, because there are many more
// pairs than single factors, and few of them good.
//
// Threads: tables are filled when first asked for, so one thread at a time.
// Differs from Jia et al. 2019, section 4: unequal parts, replicas and reductions are configs too;
// device sets are structured instead of arbitrary.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/problem.h"
#include "plan/strategy.h"
#include "search/factor_blocks.h"
#include "search/random.h"

namespace partita::search {

struct ConfigTableOptions {
    int most_axes = 2;  ///< of a config; 1 or 2
    /// Only these numbers of parts, rising; empty: all of the above.
    std::vector<int> sizes;
    /// No device set that does not begin at a device of this list; empty: any.
    std::vector<int> firsts;
};

class ConfigTable {
public:
    using Degrees = std::vector<plan::FactorDegree>;

    explicit ConfigTable(const plan::Problem& problem, ConfigTableOptions options = {});

    /// Numbers of parts for which the op has degrees and devices, rising; never empty.
    const std::vector<int>& sizes(graph::OpId op);
    /// Device sets of that many devices that the op may use.
    const std::vector<plan::DeviceSet>& device_sets(graph::OpId op, int size);
    /// Legal degrees that make that many parts, those of one axis first. For one part: none.
    const std::vector<Degrees>& degrees(graph::OpId op, int size);

    /// Degrees for that many parts, at random; `size` is one of sizes().
    Degrees draw_degrees(graph::OpId op, int size, Random& random);
    /// The logarithm of the probability with which draw_degrees() draws these. Those that the table
    /// lacks (a start has them) count as others with as many axes.
    double log_probability(graph::OpId op, int size, const Degrees& degrees);

private:
    [[nodiscard]] bool is_legal(graph::OpId op, const Degrees& degrees, int size) const;
    [[nodiscard]] std::vector<Degrees> find_degrees(graph::OpId op, int size) const;
    std::pair<std::size_t, std::size_t> with_axes(graph::OpId op, int size, std::size_t axes);
    void add_sets(const std::vector<int>& devices);
    void add_size(int size, const std::vector<int>& devices);

    const plan::Problem& problem_;
    ConfigTableOptions options_;
    std::vector<std::vector<FactorBlocks>> blocks_;     ///< per op
    std::map<int, std::vector<plan::DeviceSet>> sets_;  ///< by size, of all devices
    std::map<graph::OpId, std::vector<int>> sizes_;
    std::map<std::pair<graph::OpId, int>, std::vector<plan::DeviceSet>> allowed_sets_;
    std::map<std::pair<graph::OpId, int>, std::vector<Degrees>> degrees_;
};

}  // namespace partita::search
