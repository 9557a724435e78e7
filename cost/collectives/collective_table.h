// SPDX-License-Identifier: Apache-2.0
//
// Measured collectives: exact at the sizes that were measured, straight lines between them.
//
//     time(S) = t0 + (t1 - t0) (S - s0) / (s1 - s0)        s0 <= S <= s1 neighbours in the table
//
// Below the smallest size another model answers, but never more than the smallest size takes;
// beyond the largest the bandwidth of the largest counts.
// A table holds one collective on one number of ranks and nodes. Several rows of one size count as
// their median. Where noise makes a larger size cheaper, neighbours are averaged until none is
// (pool adjacent violators): there, and only there, the table differs from the log.
//
// Answers only for the numbers of ranks and nodes that it holds. Threads: const. Errors: none.
// Source of the averaging: Ayer et al., Annals of Mathematical Statistics 26(4), 1955.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/collectives/collective_log.h"

namespace partita::cost {

class CollectiveTable final : public CollectiveModel {
public:
    /// Rows with the same collective, ranks and nodes make a curve.
    CollectiveTable(std::span<const MeasuredCollective> rows, std::string name,
                    std::shared_ptr<const CollectiveModel> below = nullptr);

    /// Null: no such curve. The source says whether the size was measured; below the smallest size
    /// it is that one's time.
    [[nodiscard]] std::optional<CollectivePrice> time_of(Collective kind, Bytes bytes, int ranks,
                                                         int nodes) const;
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return name_; }

private:
    struct Point {
        std::int64_t bytes = 0;
        std::int64_t picoseconds = 0;
    };
    using Key = std::tuple<Collective, int, int>;  ///< ranks, nodes

    std::map<Key, std::vector<Point>> curves_;  ///< by rising bytes, times never fall
    std::string name_;
    std::shared_ptr<const CollectiveModel> below_;  ///< shared: it also stands behind the table
};

}  // namespace partita::cost
