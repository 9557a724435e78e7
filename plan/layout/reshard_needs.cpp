// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_needs.h"

#include <algorithm>

namespace partita::plan {

/// Old regions in the order of their first shards, so that they are met in the order of shards.
void ReshardNeeds::group_by_region(const Shards& old) {
    by_region_.clear();
    for (std::size_t i = 0; i < old.size(); ++i) {
        by_region_.emplace_back(old[i].region, static_cast<std::int32_t>(i));
    }
    if (!std::ranges::is_sorted(by_region_)) std::ranges::sort(by_region_);
    runs_.clear();
    for (std::size_t i = 0; i < by_region_.size(); ++i) {
        const auto& [region, shard] = by_region_[i];
        if (i == 0 || by_region_[i - 1].first != region) runs_.push_back({shard, i, i});
        runs_.back().end = i + 1;
    }
    if (!std::ranges::is_sorted(runs_, {}, &Run::first_shard)) {
        std::ranges::sort(runs_, {}, &Run::first_shard);
    }
    old_regions_.clear();
    old_shards_.clear();
    has_replicas_.clear();
    for (const Run& run : runs_) {
        old_regions_.push_back(by_region_[run.begin].first);
        char has_replicas = 0;
        for (std::size_t i = run.begin; i < run.end; ++i) {
            const std::int32_t shard = by_region_[i].second;
            old_shards_.items.push_back(shard);
            if (old.replicas(static_cast<std::size_t>(shard)).size() > 1) has_replicas = 1;
        }
        old_shards_.end_row();
        has_replicas_.push_back(has_replicas);
    }
    sources_of_region_.assign(old_regions_.size(), kNone);
}

/// Into overlaps_.
void ReshardNeeds::find_overlaps(const Shard& needed, RegionTable& regions) {
    overlaps_.clear();
    for (const std::int32_t i : index_.near(needed.region, regions)) {
        const std::int32_t region = old_regions_[static_cast<std::size_t>(i)];
        const std::int32_t common = regions.intersection(region, needed.region);
        if (common >= 0) overlaps_.push_back({i, common});
    }
}

/// The shards of overlaps_ into commons_, one by one; those of one summand, unless it is -1.
void ReshardNeeds::list_commons(const Shards& old, std::int32_t summand) {
    commons_.clear();
    for (const Common& overlap : overlaps_) {
        for (const std::int32_t shard : old_shards_[static_cast<std::size_t>(overlap.of)]) {
            const bool counts =
                summand < 0 || old[static_cast<std::size_t>(shard)].summand == summand;
            if (counts) commons_.push_back({shard, overlap.region});
        }
    }
    if (!std::ranges::is_sorted(commons_, {}, &Common::of)) {
        std::ranges::sort(commons_, {}, &Common::of);
    }
}

/// Of commons_, one for all where they are equal.
std::uint32_t ReshardNeeds::add_regions() {
    const auto differs = [&](const Common& common) {
        return common.region != commons_.front().region;
    };
    const bool is_one = !commons_.empty() && std::ranges::none_of(commons_, differs);
    for (const Common& common : commons_) {
        regions_.items.push_back(common.region);
        if (is_one) break;
    }
    regions_.end_row();
    return last_row(regions_);
}

std::uint32_t ReshardNeeds::add_row(Row row) {
    rows_.push_back(row);
    return static_cast<std::uint32_t>(rows_.size()) - 1;
}

/// Of a new shard whose elements lie in one old region, of whose shards there are no replicas.
std::uint32_t ReshardNeeds::row_of_region(const Shards& old, const Common& overlap) {
    const auto region = static_cast<std::size_t>(overlap.of);
    std::uint32_t& sources = sources_of_region_[region];
    if (sources == kNone) {
        for (const std::int32_t shard : old_shards_[region]) {
            sources_.items.push_back(old.replicas(static_cast<std::size_t>(shard)).front());
        }
        sources_.end_row();
        sources = last_row(sources_);
    }
    regions_.items.push_back(overlap.region);
    regions_.end_row();
    return add_row({sources, last_row(regions_)});
}

/// Of commons_, for each replica of the new shard.
void ReshardNeeds::add_rows(const LayoutPair& pair, const Shards& old, std::size_t shard,
                            bool same_ranks) {
    const std::uint32_t regions = add_regions();
    const bool chooses = std::ranges::any_of(commons_, [&](const Common& common) {
        return old.replicas(static_cast<std::size_t>(common.of)).size() > 1;
    });
    row_of_rank_.clear();
    for (const std::int32_t piece : new_.replicas(shard)) {
        const auto t = static_cast<std::size_t>(piece);
        const std::size_t rank =
            chooses && same_ranks ? static_cast<std::size_t>(old.rank_of(t)) : 0;
        if (row_of_rank_.size() <= rank) row_of_rank_.resize(rank + 1, kNone);
        std::uint32_t& row = row_of_rank_[rank];
        if (row == kNone || (chooses && !same_ranks)) {
            for (const Common& common : commons_) {
                const auto from = static_cast<std::size_t>(common.of);
                sources_.items.push_back(
                    chooses && !same_ranks
                        ? choice_.choose(from, pair.to.pieces[t].device, new_.rank_of(t))
                        : old.replicas(from)[rank]);
            }
            sources_.end_row();
            row = add_row({last_row(sources_), regions});
        }
        row_of_[t] = row;
    }
}

void ReshardNeeds::find(const LayoutPair& pair, const Shards& old, bool same_ranks,
                        RegionTable& regions, const cost::Machine& machine) {
    new_.find(pair.to, regions);
    group_by_region(old);
    new_regions_.clear();
    for (std::size_t i = 0; i < new_.size(); ++i) new_regions_.push_back(new_[i].region);
    index_.build(old_regions_, new_regions_, regions);
    choice_.prepare(pair.from, old, machine);
    sources_.clear();
    regions_.clear();
    rows_.clear();
    sources_.end_row();
    regions_.end_row();
    row_of_.assign(pair.to.pieces.size(), add_row({0, 0}));  // of pieces without elements
    for (std::size_t i = 0; i < new_.size(); ++i) {
        find_overlaps(new_[i], regions);
        const bool is_one = overlaps_.size() == 1 && !pair.to.is_partial() &&
                            has_replicas_[static_cast<std::size_t>(overlaps_[0].of)] == 0;
        if (is_one) {
            const std::uint32_t row = row_of_region(old, overlaps_[0]);
            for (const std::int32_t t : new_.replicas(i))
                row_of_[static_cast<std::size_t>(t)] = row;
        } else {
            list_commons(old, pair.to.is_partial() ? new_[i].summand : -1);
            add_rows(pair, old, i, same_ranks);
        }
    }
}

}  // namespace partita::plan
