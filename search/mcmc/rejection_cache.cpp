// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/rejection_cache.h"

namespace partita::search {

namespace {

/// Visits the numbers that the changes consist of until one is refused. Default updates, which most
/// are, are left out, and so is what recomputes nothing: all others begin with a negative number, as no op does.
template <class Visit>
bool all_words(const Changes& changes, Visit visit) {
    const auto of_config = [&](ConfigId config) {
        return visit(config.degrees) && visit(config.devices);
    };
    for (const auto& [op, decision] : changes.ops) {
        const auto& [config, update, recompute] = decision;
        if (!visit(static_cast<std::int32_t>(op.value)) || !of_config(config)) return false;
        if (recompute != plan::Recompute::none && !visit(~(4 + static_cast<int>(recompute)))) {
            return false;
        }
        if (update == UpdateId{}) continue;
        const int flags = (update.accumulate_locally ? 1 : 0) + (update.refetch ? 2 : 0);
        if (!visit(~flags) || !of_config(update.update)) return false;
    }
    return true;
}

std::uint64_t hash_of(const Changes& changes) {
    std::uint64_t hash = changes.ops.size();
    all_words(changes, [&](std::int32_t word) {
        hash = (hash ^ static_cast<std::uint32_t>(word)) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
        return true;
    });
    return hash;
}

}  // namespace

std::optional<bool> RejectionCache::Known::accepted_by(const plan::Score& limit) const {
    if (score) return limit.admits(*score);
    const bool stricter = limit.keeps_schedule == above.keeps_schedule &&
                          limit.overflow == above.overflow && limit.value <= above.value;
    return stricter ? std::optional(false) : std::nullopt;
}

bool RejectionCache::is_same(const Entry& entry, const Changes& changes) const {
    std::size_t at = entry.begin;
    const bool equal = all_words(changes, [&](std::int32_t word) {
        if (at == entry.end || words_[at] != word) return false;
        ++at;
        return true;
    });
    return equal && at == entry.end;
}

/// Where it is, or would be.
std::size_t RejectionCache::slot_of(const Changes& changes, std::uint64_t hash) const {
    std::size_t slot = hash % kSlots;
    for (; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
        const Entry& entry = entries_[slots_[slot] - 1];
        if (entry.hash == hash && is_same(entry, changes)) break;
    }
    return slot;
}

const RejectionCache::Known* RejectionCache::find(const Changes& changes) const {
    if (entries_.empty() || changes.policy) return nullptr;
    const std::uint32_t entry = slots_[slot_of(changes, hash_of(changes))];
    return entry == 0 ? nullptr : &entries_[entry - 1].known;
}

void RejectionCache::remember(const Changes& changes, const Known& known) {
    if (changes.policy) return;
    if (entries_.size() >= kMost || words_.size() >= kMostWords) clear();
    const std::uint64_t hash = hash_of(changes);
    const std::size_t slot = slot_of(changes, hash);
    if (slots_[slot] != 0) {
        entries_[slots_[slot] - 1].known = known;
        return;
    }
    const std::size_t begin = words_.size();
    all_words(changes, [&](std::int32_t word) {
        words_.push_back(word);
        return true;
    });
    entries_.push_back({.hash = hash, .begin = begin, .end = words_.size(), .known = known});
    slots_[slot] = static_cast<std::uint32_t>(entries_.size());
    used_.push_back(static_cast<std::uint32_t>(slot));
}

void RejectionCache::clear() {
    for (const std::uint32_t slot : used_) slots_[slot] = 0;
    used_.clear();
    entries_.clear();
    words_.clear();
}

}  // namespace partita::search
