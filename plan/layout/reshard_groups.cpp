// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_groups.h"

#include <utility>

namespace partita::plan {

void ReshardGroups::find(const LayoutPair& pair, const ReshardNeeds& needs) {
    local_.clear();
    remote_.clear();
    needed_together_.reset(pair.from.pieces.size());
    is_united_.assign(needs.source_lists(), 0);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(pair.to.pieces.size()); ++t) {
        const NeedList of = needs[t];
        if (of.empty()) continue;
        if (of.size() == 1 && pair.source(of[0].source).device == pair.target(t).device) {
            local_.push_back(t);
            continue;
        }
        remote_.push_back(t);
        char& is_united = is_united_[needs.sources_of(needs.row_of(t))];
        if (std::exchange(is_united, 1) != 0) continue;
        for (const std::int32_t source : of.sources()) {
            needed_together_.unite(static_cast<std::size_t>(of[0].source),
                                   static_cast<std::size_t>(source));
        }
    }
    group_of_.assign(pair.from.pieces.size(), -1);
    members_.clear();
    std::int32_t count = 0;
    for (const std::int32_t t : remote_) {
        const auto source = static_cast<std::size_t>(needs[t][0].source);
        std::int32_t& group = group_of_[needed_together_.root(source)];
        if (group < 0) group = count++;
        members_.emplace_back(group, t);
    }
    to_csr(members_, static_cast<std::size_t>(count), scratch_, groups_);
}

}  // namespace partita::plan
