// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/collective_choice.h"

#include <algorithm>
#include <utility>

namespace partita::plan {

void CollectiveChoice::give(std::int32_t source, std::int64_t elements) {
    std::int64_t& given = given_[static_cast<std::size_t>(source)];
    if (given == 0) sources_.push_back(source);
    given += elements;
}

/// What the group exchanges; its old pieces go into sources_. Each list once, for all pieces of it.
Exchange CollectiveChoice::find_exchange(const LayoutPair& pair,
                                         std::span<const std::int32_t> group,
                                         const ReshardNeeds& needs, const RegionTable& regions) {
    sources_.clear();
    const auto at_least = [](std::vector<std::int64_t>& counts, std::size_t size) {
        if (counts.size() < size) counts.resize(size, 0);
    };
    at_least(given_, pair.from.pieces.size());
    at_least(given_by_each_, needs.source_lists());
    at_least(pieces_of_row_, needs.rows());
    rows_.clear();
    for (const std::int32_t t : group) {
        const std::size_t row = needs.row_of(t);
        if (pieces_of_row_[row]++ == 0) rows_.push_back(row);
    }
    Exchange exchange;
    lists_of_sources_.clear();
    for (const std::size_t row : rows_) {
        const std::int64_t pieces = std::exchange(pieces_of_row_[row], 0);
        const NeedList of = needs.list(row);
        const auto count = static_cast<std::int64_t>(of.size());
        exchange.pairs += pieces * count;
        if (of.has_one_region()) {
            const std::int64_t elements = pieces * regions.volume(of[0].region);
            exchange.elements += elements * count;
            std::int64_t& by_each = given_by_each_[needs.sources_of(row)];
            if (by_each == 0) lists_of_sources_.push_back(row);
            by_each += elements;
            continue;
        }
        for (const Need need : of) {
            const std::int64_t elements = pieces * regions.volume(need.region);
            exchange.elements += elements;
            give(need.source, elements);
        }
    }
    for (const std::size_t row : lists_of_sources_) {
        const std::int64_t by_each = std::exchange(given_by_each_[needs.sources_of(row)], 0);
        for (const std::int32_t source : needs.list(row).sources()) give(source, by_each);
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
