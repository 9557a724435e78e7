// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_needs.h"

namespace partita::plan {

namespace {

void list_regions(const Shards& shards, std::vector<std::int32_t>& regions) {
    regions.clear();
    for (std::size_t i = 0; i < shards.size(); ++i) regions.push_back(shards[i].region);
}

}  // namespace

void ReshardNeeds::find_commons(const LayoutPair& pair, const Shards& old, RegionTable& regions) {
    list_regions(old, old_regions_);
    list_regions(new_, new_regions_);
    index_.build(old_regions_, new_regions_, regions);
    commons_.clear();
    for (std::size_t i = 0; i < new_.size(); ++i) {
        const Shard& needed = new_[i];
        std::int32_t region = -1;  // of the old shard before, which often is an addend beside this
        std::int32_t common = -1;
        for (const std::int32_t shard : index_.near(needed.region, regions)) {
            const Shard& held = old[static_cast<std::size_t>(shard)];
            if (pair.to.is_partial() && held.summand != needed.summand) continue;
            if (held.region != region) {
                region = held.region;
                common = regions.intersection(region, needed.region);
            }
            if (common >= 0) commons_.items.push_back({shard, common});
        }
        commons_.end_row();
    }
}

void ReshardNeeds::find(const LayoutPair& pair, const Shards& old, bool same_ranks,
                        RegionTable& regions, const cost::Machine& machine) {
    new_.find(pair.to, regions);
    find_commons(pair, old, regions);
    choice_.prepare(pair.from, old, machine);
    needs_.clear();
    for (std::size_t t = 0; t < pair.to.pieces.size(); ++t) {
        const std::int32_t needed = new_.shard_of(t);
        if (needed >= 0) {
            for (const Common& common : commons_[static_cast<std::size_t>(needed)]) {
                const auto shard = static_cast<std::size_t>(common.shard);
                const std::int32_t source =
                    same_ranks ? old.replicas(shard)[static_cast<std::size_t>(old.rank_of(t))]
                               : choice_.choose(shard, pair.to.pieces[t].device, new_.rank_of(t));
                needs_.items.push_back({source, common.region});
            }
        }
        needs_.end_row();
    }
}

}  // namespace partita::plan
