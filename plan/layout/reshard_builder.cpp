// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_builder.h"

#include <algorithm>
#include <optional>

namespace partita::plan {

using cost::Collective;

void ReshardBuilder::begin(const LayoutPair& pair, const ReshardNeeds& needs,
                           const RegionTable& regions) {
    pair_ = &pair;
    needs_ = &needs;
    regions_ = &regions;
    transfers_.clear();
    ends_.clear();
    supplies_.assign(pair.to.pieces.size(), {});
    items_of_.assign(pair.to.pieces.size(), {});
    unpacks_.assign(needs.rows(), std::nullopt);
    lists_of_sources_.assign(needs.source_lists(), {});
    lists_.sources.clear();
    lists_.pack.clear();
    lists_.results.clear();
    lists_.devices.clear();
    lists_.items.clear();
    if (index_of_.size() < pair.from.pieces.size()) index_of_.resize(pair.from.pieces.size());
}

void ReshardBuilder::add_local(std::int32_t target) {
    const std::size_t begin = lists_.items.size();
    lists_.items.push_back({-1, (*needs_)[target][0].source});
    items_of_[static_cast<std::size_t>(target)] = {begin, begin + 1};
}

void ReshardBuilder::add_collective(const GroupCollective& collective) {
    const auto id = static_cast<std::int32_t>(transfers_.size());
    const std::size_t first_source = lists_.sources.size();
    const std::size_t first_result = lists_.results.size();
    for (const std::int32_t i : collective.sources) {
        lists_.sources.push_back(i);
        lists_.pack.push_back(0);
    }
    for (std::size_t i = 0; i < collective.targets.size(); ++i) {
        const std::int32_t target = collective.targets[i];
        const Piece& piece = pair_->target(target);
        lists_.results.push_back({piece.device, piece.region, piece.summand});
        const std::size_t begin = lists_.items.size();
        lists_.items.push_back({id, static_cast<std::int32_t>(i)});
        items_of_[static_cast<std::size_t>(target)] = {begin, begin + 1};
    }
    add_ranks(collective);
    note_packing(collective, std::span{lists_.pack}.subspan(first_source),
                 std::span{lists_.results}.subspan(first_result));
    transfers_.push_back(
        {.collective = collective.named.collective, .elements = collective.named.elements});
    close_transfer();
}

/// The root first, if there is one.
void ReshardBuilder::add_ranks(const GroupCollective& collective) {
    const bool root_gives = has_root_at_source(collective.named.collective);
    const bool root_gets = has_root_at_target(collective.named.collective);
    const std::span<const int> first =
        root_gets ? collective.target_devices : collective.source_devices;
    lists_.devices.insert(lists_.devices.end(), first.begin(), first.end());
    if (!root_gives && !root_gets) return;
    for (const int device : root_gives ? collective.target_devices : collective.source_devices) {
        if (device != first[0]) lists_.devices.push_back(device);
    }
}

/// Who gives all that he has packs nothing, and who gets all from one rank unpacks nothing.
void ReshardBuilder::note_packing(const GroupCollective& collective, std::span<char> pack,
                                  std::span<Delivery> results) {
    const bool gives_parts = gives_a_part(collective.named.collective);
    const bool gets_from_all = gets_from_many(collective.named.collective);
    if (!gives_parts && !gets_from_all) return;
    for (std::size_t i = 0; i < collective.sources.size(); ++i) {
        index_of_[static_cast<std::size_t>(collective.sources[i])] = i;
    }
    for (std::size_t i = 0; i < collective.targets.size(); ++i) {
        const std::size_t row = needs_->row_of(collective.targets[i]);
        std::optional<bool>& unpacks = unpacks_[row];
        if (!unpacks) {
            const auto is_packed = [&](const Need& need) {
                return !regions_->is_contiguous(results[i].region, need.region);
            };
            unpacks = gets_from_all && std::ranges::any_of(needs_->list(row), is_packed);
            if (gives_parts) note_given(row, pack);
        }
        results[i].unpack = *unpacks;
    }
}

void ReshardBuilder::note_given(std::size_t row, std::span<char> pack) {
    const NeedList needs = needs_->list(row);
    ListOfSources& list = lists_of_sources_[needs_->sources_of(row)];
    if (list.all_pack) return;
    const auto index = [&](std::int32_t source) {
        return index_of_[static_cast<std::size_t>(source)];
    };
    if (!list.region) list.region = region_of_all(needs);
    if (needs.has_one_region() && *list.region >= 0) {
        if (regions_->is_contiguous(*list.region, needs[0].region)) return;
        list.all_pack = true;
        for (const std::int32_t source : needs.sources()) pack[index(source)] = 1;
        return;
    }
    for (const Need need : needs) {
        char& packs = pack[index(need.source)];
        if (packs != 0) continue;
        packs = regions_->is_contiguous(pair_->source(need.source).region, need.region) ? 0 : 1;
    }
}

/// That all sources hold; -1: there is none.
std::int32_t ReshardBuilder::region_of_all(const NeedList& needs) const {
    const std::int32_t first = pair_->source(needs[0].source).region;
    const bool is_one = std::ranges::all_of(needs.sources(), [&](std::int32_t source) {
        return pair_->source(source).region == first;
    });
    return is_one ? first : -1;
}

void ReshardBuilder::add_copies(std::int32_t target) {
    const Piece& piece = pair_->target(target);
    const NeedList needs = (*needs_)[target];
    std::int64_t delivered = 0;
    const std::size_t begin = lists_.items.size();
    for (const Need need : needs) {
        delivered += regions_->volume(need.region);
        if (pair_->source(need.source).device == piece.device) {
            lists_.items.push_back({-1, need.source});
            continue;
        }
        lists_.items.push_back({static_cast<std::int32_t>(transfers_.size()), 0});
        add_copy(target, need);
    }
    items_of_[static_cast<std::size_t>(target)] = {begin, lists_.items.size()};
    supplies_[static_cast<std::size_t>(target)].sum =
        pair_->from.is_partial() && !pair_->to.is_partial() &&
        (delivered > regions_->volume(piece.region) || overlap(needs));
}

void ReshardBuilder::add_copy(std::int32_t target, const Need& need) {
    const Piece& source = pair_->source(need.source);
    const Piece& piece = pair_->target(target);
    lists_.sources.push_back(need.source);
    lists_.pack.push_back(regions_->is_contiguous(source.region, need.region) ? 0 : 1);
    lists_.results.push_back({piece.device, need.region, piece.summand});
    lists_.devices.push_back(source.device);
    lists_.devices.push_back(piece.device);
    transfers_.push_back({.collective = std::nullopt, .elements = regions_->volume(need.region)});
    close_transfer();
}

/// What the lists have got since the transfer before belongs to the latest one.
void ReshardBuilder::close_transfer() {
    ends_.push_back({lists_.sources.size(), lists_.results.size(), lists_.devices.size()});
}

/// With gaps (strides beyond the window) addends may overlap and still be few.
bool ReshardBuilder::overlap(const NeedList& needs) {
    regions_of_need_.clear();
    for (const Need& need : needs) regions_of_need_.push_back(need.region);
    index_.build(regions_of_need_, regions_of_need_, *regions_);
    for (std::size_t i = 0; i < needs.size(); ++i) {
        for (const std::int32_t other : index_.near(needs[i].region, *regions_)) {
            if (static_cast<std::size_t>(other) >= i) break;
            if (regions_->overlap(needs[i].region,
                                  regions_of_need_[static_cast<std::size_t>(other)]))
                return true;
        }
    }
    return false;
}

Reshard ReshardBuilder::given() const {
    Reshard reshard;
    reshard.transfers = transfers_;
    reshard.supplies = supplies_;
    reshard.lists = lists_;
    Ends begin;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        const Ends& end = ends_[i];
        Transfer& transfer = reshard.transfers[i];
        const std::size_t sources = end.sources - begin.sources;
        transfer.sources = std::span{reshard.lists.sources}.subspan(begin.sources, sources);
        transfer.pack = std::span{reshard.lists.pack}.subspan(begin.sources, sources);
        transfer.results =
            std::span{reshard.lists.results}.subspan(begin.results, end.results - begin.results);
        transfer.devices =
            std::span{reshard.lists.devices}.subspan(begin.devices, end.devices - begin.devices);
        begin = end;
    }
    for (std::size_t t = 0; t < items_of_.size(); ++t) {
        const Run& run = items_of_[t];
        reshard.supplies[t].items =
            std::span{reshard.lists.items}.subspan(run.begin, run.end - run.begin);
    }
    return reshard;
}

}  // namespace partita::plan
