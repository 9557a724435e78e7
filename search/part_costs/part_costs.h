// SPDX-License-Identifier: Apache-2.0
//
// The least that one part of an op can take, by the number of parts: over all legal ways to make so
// many.
//
//     MatMul [8 64] x [64 32] in 4     m 4: [2 64] x [64 32]   m 2 n 2: [4 64] x [64 16]   k 4: ...
//                                      all of a price each; the least of them counts
//
// What splitting costs shows in the sum over the parts: whoever lacks a factor that is split is
// read by every part, sizes are rounded up, no task is shorter than a launch. So more parts make
// paths shorter and work larger (search/bounds/chain_bound.h).
//
// Every way to give the factors degrees whose product is the number of parts is priced, up to 16
// parts; replicas and summands make no part smaller and are left out. Beyond that, and where shares
// have no price that is known (micro_batch_costs.h), parts take an even share of the whole, or a
// launch. Ops that are alike are priced once.
//
// Sound: sizes are those of the largest part, which is what parts are priced by, or less; windows
// count as if parts shared evenly what is read. Some of the ways may be illegal.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/part_costs/micro_batch_costs.h"

namespace partita::search {

inline constexpr std::int64_t kWholeShare = 1 << 20;

/// An op in `fewest` to `most` parts: each takes at least this in one micro-batch.
struct PartCost {
    std::int64_t fewest = 1;
    std::int64_t most = 1;
    Time forward;
    Time backward;  ///< as MicroBatchCosts::PassCost::run
    /// The most of the op's work that one part may have, in kWholeShare; rounded up.
    std::int64_t largest = kWholeShare;
};

class PartCosts {
public:
    /// `devices`: the first device of each class, as in DeviceClasses. All must outlive it.
    PartCosts(const plan::Problem& problem, const MicroBatchCosts& times,
              const std::vector<int>& devices);

    /// By rising numbers of parts, the whole op first; all that the op can have, several times
    /// where larger parts are quicker. Rows of all classes have the same numbers of parts and
    /// shares.
    [[nodiscard]] std::span<const PartCost> of(graph::OpId op, std::size_t device_class) const {
        const std::size_t row = first_[op.index()] + device_class;
        return {parts_.data() + rows_[row], parts_.data() + rows_[row + 1]};
    }

private:
    void add(const std::vector<std::vector<PartCost>>& of_class);

    std::vector<std::size_t> first_;  ///< per op, its row of the first class
    std::vector<std::size_t> rows_;   ///< of parts_, and the end
    std::vector<PartCost> parts_;
};

}  // namespace partita::search
