// SPDX-License-Identifier: Apache-2.0
//
// What is known of the proposals that a chain has rejected in its present state. A chain that stays
// where it is draws the same proposals again and again; each time its limit is another one:
//
//     known            next limit           decided without an evaluation?
//     the score        any                  yes: limit.admits(score)
//     above a limit    not above that one   yes: rejected
//     above a limit    above that one       no: the value may lie between the two
//
// Both are facts about the state with the changes, and a score has no other input; so decisions are
// those of a chain that remembers nothing. Two proposals count as the same when all their changes
// are equal, not when their hashes are. The log ratio is part of the limit, not of what is known.
//
// Forgets everything when the state changes (clear()), and when it is full. Proposals of another
// policy are not remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/evaluation/score.h"
#include "search/configs/state_change.h"

namespace partita::search {

class RejectionCache {
public:
    struct Known {
        std::optional<plan::Score> score;
        plan::Score above;  ///< without a score: it is worse than this

        /// nullopt: that is not known.
        [[nodiscard]] std::optional<bool> accepted_by(const plan::Score& limit) const;
    };

    RejectionCache() : slots_(kSlots, 0) {}

    /// Null: nothing is. Valid until the next remember() or clear().
    [[nodiscard]] const Known* find(const Changes& changes) const;
    /// Replaces what was known.
    void remember(const Changes& changes, const Known& known);
    void clear();

private:
    static constexpr std::size_t kSlots = 8'192;  ///< a power of two
    static constexpr std::size_t kMost = kSlots / 2;
    static constexpr std::size_t kMostWords = std::size_t{1} << 18;

    struct Entry {
        std::uint64_t hash = 0;
        std::size_t begin = 0;  ///< of its words
        std::size_t end = 0;
        Known known;
    };

    [[nodiscard]] std::size_t slot_of(const Changes& changes, std::uint64_t hash) const;
    [[nodiscard]] bool is_same(const Entry& entry, const Changes& changes) const;

    std::vector<std::uint32_t> slots_;  ///< entry + 1; 0: free
    std::vector<std::uint32_t> used_;   ///< slots
    std::vector<Entry> entries_;
    std::vector<std::int32_t> words_;
};

}  // namespace partita::search
