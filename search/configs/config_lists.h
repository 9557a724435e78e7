// SPDX-License-Identifier: Apache-2.0
//
// The configs that `elimination` lets an op choose among, over nested sets of equal devices:
//
//     sets      all devices, and the first n / 2, n / 3, ... of them for divisors and powers of two: only
//               one set per size, because nothing overlaps and so nothing is gained elsewhere
//     degrees   none; one axis: any factor (in blocks too), reductions and replicas included; two axes:
//               two factors of the results, the first one major                 (Detail::two_axes)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/factor_blocks.h"

namespace partita::search {

/// How many configs an op has: the larger a problem, the fewer.
enum class Detail : std::uint8_t {
    whole_or_batch,  ///< on one device, split along one factor over all, or repeated there
    one_axis,        ///< sets of all sizes, one axis
    two_axes,        ///< two as well
};

/// The detail that is worth its time.
Detail detail_for(const plan::Problem& problem, std::size_t devices);

class ConfigLists {
public:
    /// Over these devices, which should be equal.
    ConfigLists(const plan::Problem& problem, const std::vector<int>& devices, Detail detail);

    /// Of an op that computes or is an output.
    [[nodiscard]] std::vector<plan::OpConfig> of(graph::OpId op) const;
    [[nodiscard]] const plan::DeviceSet& all_devices() const { return sets_.front(); }

private:
    void find_sets(const std::vector<int>& devices, Detail detail);
    void add_degrees(graph::OpId op, const plan::DeviceSet& set,
                     std::vector<plan::OpConfig>& configs) const;
    [[nodiscard]] bool is_legal(graph::OpId op, const plan::OpConfig& config) const;

    const plan::Problem& problem_;
    const Detail detail_;
    std::vector<std::vector<FactorBlocks>> blocks_;  ///< per op
    std::vector<plan::DeviceSet> sets_;              ///< most devices first
};

}  // namespace partita::search
