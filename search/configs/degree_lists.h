// SPDX-License-Identifier: Apache-2.0
//
// Degrees by number. Ops with the same factor names, for which an axis means the same (axis.h),
// share a list, so that the repetitions of a block (repeated_blocks.h) use the same numbers;
// whether degrees are legal is a question of the op. Number 0 is a whole op; others are numbered as
// they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

using DegreesId = std::int32_t;

class DegreeLists {
public:
    using Degrees = std::vector<plan::Axis>;

    explicit DegreeLists(const plan::Problem& problem);

    /// Numbers the degrees if they are new. O(size of the list).
    DegreesId id(graph::OpId op, const Degrees& degrees);
    /// The reference stays valid.
    [[nodiscard]] const Degrees& degrees(graph::OpId op, DegreesId id) const {
        return entry(op, id).degrees;
    }
    /// The number of parts, or one more than there are devices when it is larger.
    [[nodiscard]] int size(graph::OpId op, DegreesId id) const { return entry(op, id).size; }
    /// Is there a summand axis, "+"?
    [[nodiscard]] bool takes_summands(graph::OpId op, DegreesId id) const {
        return entry(op, id).summands;
    }
    /// Does any list have degrees with a summand axis?
    [[nodiscard]] bool any_summands() const { return any_summands_; }
    /// Have degrees the same numbers in both?
    [[nodiscard]] bool share_list(graph::OpId a, graph::OpId b) const {
        return list_of_[a.index()] == list_of_[b.index()];
    }

private:
    struct Entry {
        Degrees degrees;
        int size = 1;
        bool summands = false;
    };

    [[nodiscard]] const Entry& entry(graph::OpId op, DegreesId id) const {
        return lists_[list_of_[op.index()]][static_cast<std::size_t>(id)];
    }
    [[nodiscard]] int size_of(const Degrees& degrees) const;

    int device_count_;
    std::vector<std::uint32_t> list_of_;  ///< per op
    std::vector<std::deque<Entry>> lists_;
    bool any_summands_ = false;
};

}  // namespace partita::search
