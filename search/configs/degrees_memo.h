// SPDX-License-Identifier: Apache-2.0
//
// What degrees become somewhere else, found once: by number of micro-batches, row (a link, a
// parameter) and degrees.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "search/configs/config_id.h"

namespace partita::search {

class DegreesMemo {
public:
    /// What `find` gives, a std::optional<DegreesId>, which may ask this memo no other question.
    template <class Find>
    std::optional<DegreesId> find_once(MicroBatchesId micro_batches_id, std::size_t row,
                                       DegreesId degrees, Find&& find) {
        if (micro_batches_id >= known_.size()) known_.resize(micro_batches_id + 1);
        auto& rows = known_[micro_batches_id];
        if (row >= rows.size()) rows.resize(row + 1);
        std::vector<DegreesId>& known = rows[row];
        const auto at = static_cast<std::size_t>(degrees);
        if (at >= known.size()) known.resize(at + 1, kUnknown);
        if (known[at] == kUnknown) known[at] = std::forward<Find>(find)().value_or(kNone);
        return known[at] == kNone ? std::nullopt : std::optional(known[at]);
    }

private:
    static constexpr DegreesId kUnknown = std::numeric_limits<DegreesId>::min();
    static constexpr DegreesId kNone = kUnknown + 1;

    std::vector<std::vector<std::vector<DegreesId>>> known_;
};

}  // namespace partita::search
