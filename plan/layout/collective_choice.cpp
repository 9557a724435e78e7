// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/collective_choice.h"

#include <algorithm>
#include <utility>

namespace partita::plan {

/// What the group exchanges; its old pieces go into sources_.
Exchange CollectiveChoice::find_exchange(const LayoutPair& pair,
                                         std::span<const std::int32_t> group,
                                         const ReshardNeeds& needs, const RegionTable& regions) {
    sources_.clear();
    if (given_.size() < pair.from.pieces.size()) given_.resize(pair.from.pieces.size(), 0);
    Exchange exchange;
    for (const std::int32_t t : group) {
        for (const Need& need : needs[t]) {
            std::int64_t& given = given_[static_cast<std::size_t>(need.source)];
            if (given == 0) sources_.push_back(need.source);
            given += regions.volume(need.region);
            exchange.elements += regions.volume(need.region);
        }
        exchange.pairs += static_cast<std::int64_t>(needs[t].size());
    }
    for (const std::int32_t i : sources_) {
        const std::int64_t given = std::exchange(given_[static_cast<std::size_t>(i)], 0);
        exchange.most_given = std::max(exchange.most_given, given);
    }
    std::sort(sources_.begin(), sources_.end());
    return exchange;
}

std::optional<GroupCollective> CollectiveChoice::choose(const LayoutPair& pair,
                                                        std::span<const std::int32_t> group,
                                                        const ReshardNeeds& needs,
                                                        const RegionTable& regions) {
    const Exchange exchange = find_exchange(pair, group, needs, regions);
    if (!may_have_name(sources_.size(), group.size())) return std::nullopt;
    source_pieces_.clear();
    source_devices_.clear();
    for (const std::int32_t i : sources_) {
        source_pieces_.push_back(pair.source(i));
        source_devices_.push_back(pair.source(i).device);
    }
    target_pieces_.clear();
    target_devices_.clear();
    for (const std::int32_t t : group) {
        target_pieces_.push_back(pair.target(t));
        target_devices_.push_back(pair.target(t).device);
    }
    const auto named = name_of_group(shape_of(source_pieces_, source_devices_, regions),
                                     shape_of(target_pieces_, target_devices_, regions), exchange);
    if (!named) return std::nullopt;
    return GroupCollective{*named, sources_, group, source_devices_, target_devices_};
}

}  // namespace partita::plan
