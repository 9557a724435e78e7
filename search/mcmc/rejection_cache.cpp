// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/rejection_cache.h"

namespace partita::search {

namespace {

/// Visits the numbers that the changes consist of, configs first, until one is refused.
template <class Visit>
bool all_words(const Changes& changes, Visit visit) {
    const auto of_config = [&](graph::OpId op, ConfigId config) {
        return visit(static_cast<std::int32_t>(op.value)) && visit(config.degrees) &&
               visit(config.devices);
    };
    for (const auto& [op, config] : changes.configs) {
        if (!of_config(op, config)) return false;
    }
    for (const auto& [op, update] : changes.updates) {
        const int flags = (update.accumulate_locally ? 1 : 0) + (update.refetch ? 2 : 0);
        if (!of_config(op, update.update) || !visit(flags)) return false;
    }
    return true;
}

std::uint64_t hash_of(const Changes& changes) {
    std::uint64_t hash = changes.configs.size();
    all_words(changes, [&](std::int32_t word) {
        hash = (hash ^ static_cast<std::uint32_t>(word)) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
        return true;
    });
    return hash;
}

}  // namespace

std::optional<bool> Rejections::Known::accepted_by(const plan::Score& limit) const {
    if (score) return limit.admits(*score);
    const bool stricter = limit.keeps_schedule == above.keeps_schedule &&
                          limit.overflow == above.overflow && limit.value <= above.value;
    return stricter ? std::optional(false) : std::nullopt;
}

bool Rejections::is_same(const Entry& entry, const Changes& changes) const {
    if (entry.configs != changes.configs.size() || entry.updates != changes.updates.size()) {
        return false;
    }
    std::size_t at = entry.begin;
    return all_words(changes, [&](std::int32_t word) { return words_[at++] == word; });
}

/// Where it is, or would be.
std::size_t Rejections::slot_of(const Changes& changes, std::uint64_t hash) const {
    std::size_t slot = hash % kSlots;
    for (; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
        const Entry& entry = entries_[slots_[slot] - 1];
        if (entry.hash == hash && is_same(entry, changes)) break;
    }
    return slot;
}

const Rejections::Known* Rejections::find(const Changes& changes) const {
    if (entries_.empty() || changes.policy) return nullptr;
    const std::uint32_t entry = slots_[slot_of(changes, hash_of(changes))];
    return entry == 0 ? nullptr : &entries_[entry - 1].known;
}

void Rejections::remember(const Changes& changes, const Known& known) {
    if (changes.policy) return;
    if (entries_.size() >= kMost || words_.size() >= kMostWords) clear();
    const std::uint64_t hash = hash_of(changes);
    const std::size_t slot = slot_of(changes, hash);
    if (slots_[slot] != 0) {
        entries_[slots_[slot] - 1].known = known;
        return;
    }
    entries_.push_back({.hash = hash,
                        .begin = words_.size(),
                        .configs = changes.configs.size(),
                        .updates = changes.updates.size(),
                        .known = known});
    all_words(changes, [&](std::int32_t word) {
        words_.push_back(word);
        return true;
    });
    slots_[slot] = static_cast<std::uint32_t>(entries_.size());
    used_.push_back(static_cast<std::uint32_t>(slot));
}

void Rejections::clear() {
    for (const std::uint32_t slot : used_) slots_[slot] = 0;
    used_.clear();
    entries_.clear();
    words_.clear();
}

}  // namespace partita::search
