// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/replica_choice.h"

#include <algorithm>
#include <span>

namespace partita::plan {

void ReplicaChoice::prepare(const Layout& from, const Shards& old, const cost::Machine& machine) {
    from_ = &from;
    old_ = &old;
    machine_ = &machine;
    piece_on_.assign(static_cast<std::size_t>(machine.device_count()), -1);
    for (std::size_t i = 0; i < from.pieces.size(); ++i) {
        const Piece& piece = from.pieces[i];
        if (piece.region < 0) continue;
        std::int32_t& first = piece_on_[static_cast<std::size_t>(piece.device)];
        if (first < 0) first = static_cast<std::int32_t>(i);
    }
}

/// 0: one device; 1: one node.
int ReplicaChoice::distance(int a, int b) const {
    if (a == b) return 0;
    return machine_->device(a).node == machine_->device(b).node ? 1 : 2;
}

std::int32_t ReplicaChoice::choose(std::size_t shard, int device, std::int32_t rank) {
    const std::span<const std::int32_t> replicas = old_->replicas(shard);
    if (replicas.size() == 1) return replicas.front();
    const std::int32_t own = piece_on_[static_cast<std::size_t>(device)];
    if (own >= 0) {
        const auto piece = static_cast<std::size_t>(own);
        if (old_->shard_of(piece) == static_cast<std::int32_t>(shard)) return own;
        rank = old_->rank_of(piece);
    }
    int least = 3;
    for (const std::int32_t i : replicas) {
        const int away = distance(from_->pieces[static_cast<std::size_t>(i)].device, device);
        if (away < least) nearest_.clear();
        least = std::min(least, away);
        if (away == least) nearest_.push_back(i);
    }
    for (const std::int32_t i : nearest_) {
        if (old_->rank_of(static_cast<std::size_t>(i)) == rank) return i;
    }
    return nearest_[static_cast<std::size_t>(rank) % nearest_.size()];
}

}  // namespace partita::plan
