// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/shards.h"

#include <algorithm>
#include <numeric>

namespace partita::plan {

void Shards::find(const Layout& layout, const RegionTable& regions) {
    holders_.clear();
    for (std::size_t i = 0; i < layout.pieces.size(); ++i) {
        const Piece& piece = layout.pieces[i];
        if (piece.region < 0) continue;
        holders_.push_back({piece.region, piece.summand, static_cast<std::int32_t>(i)});
    }
    std::sort(holders_.begin(), holders_.end());
    runs_.clear();
    for (std::size_t k = 0; k < holders_.size(); ++k) {
        const Holder& holder = holders_[k];
        const bool is_replica = k > 0 && holders_[k - 1].region == holder.region &&
                                holders_[k - 1].summand == holder.summand;
        if (!is_replica) runs_.push_back({holder.piece, k, k});
        ++runs_.back().end;
    }
    std::ranges::sort(runs_, {}, &Run::first_piece);

    shards_.clear();
    replicas_.clear();
    shard_of_.assign(layout.pieces.size(), -1);
    rank_of_.assign(layout.pieces.size(), 0);
    for (const Run& run : runs_) {
        const Holder& first = holders_[run.begin];
        const bool is_shard = regions.volume(first.region) > 0;
        for (std::size_t k = run.begin; k < run.end; ++k) {
            const auto piece = static_cast<std::size_t>(holders_[k].piece);
            rank_of_[piece] = static_cast<std::int32_t>(k - run.begin);
            if (!is_shard) continue;
            shard_of_[piece] = static_cast<std::int32_t>(shards_.size());
            replicas_.items.push_back(holders_[k].piece);
        }
        if (!is_shard) continue;
        shards_.push_back({first.region, first.summand});
        replicas_.end_row();
    }
}

bool Shards::have_equal_addends(std::int32_t summands) {
    const auto addends = static_cast<std::size_t>(summands);
    if (size() % addends != 0) return false;
    const auto region = [this](std::int32_t i) {
        return shards_[static_cast<std::size_t>(i)].region;
    };
    by_region_.resize(size());
    std::iota(by_region_.begin(), by_region_.end(), 0);
    std::ranges::sort(by_region_, {}, region);
    for (std::size_t i = 0; i < by_region_.size(); ++i) {
        const std::int32_t shard = by_region_[i];
        const std::int32_t first = by_region_[i - i % addends];
        if (region(shard) != region(first)) return false;
        if (i % addends == 0 && i > 0 && region(shard) == region(by_region_[i - 1])) return false;
        if (replicas(static_cast<std::size_t>(shard)).size() !=
            replicas(static_cast<std::size_t>(first)).size())
            return false;
    }
    return true;
}

}  // namespace partita::plan
