// SPDX-License-Identifier: Apache-2.0
//
// Numbers found by hash: open addressing with linear probing, at most half full. What has a number
// lies in the caller's arrays, and the caller says whether it is what he looks for:
//
//     const std::int32_t known = index.find(hash, [&](std::int32_t i) { return items[i] == item; });
//     if (known < 0) index.add(hash, size of items);
//
// Looked up, never iterated, so that no order comes from hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace partita {

class Hash {
public:
    void add(std::int64_t value) {
        hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0xBF58476D1CE4E5B9U;
        hash_ ^= hash_ >> 29U;
    }
    void add(std::string_view text) {
        for (const char letter : text) add(static_cast<std::int64_t>(letter));
    }
    [[nodiscard]] std::uint64_t value() const { return hash_; }

private:
    std::uint64_t hash_ = 0x9E3779B97F4A7C15U;
};

class HashIndex {
public:
    /// A number that was added with this hash and of which is_it(number) holds; -1: there is none.
    template <class IsIt>
    [[nodiscard]] std::int32_t find(std::uint64_t hash, IsIt is_it) const {
        if (slots_.empty()) return -1;
        for (std::size_t i = hash & mask(); slots_[i].number >= 0; i = (i + 1) & mask()) {
            if (slots_[i].hash == hash && is_it(slots_[i].number)) return slots_[i].number;
        }
        return -1;
    }

    /// `number` >= 0.
    void add(std::uint64_t hash, std::int32_t number) {
        if (2 * (size_ + 1) > slots_.size()) grow();
        ++size_;
        put({hash, number});
    }

    [[nodiscard]] std::size_t size() const { return size_; }

private:
    struct Slot {
        std::uint64_t hash = 0;
        std::int32_t number = -1;  ///< -1: empty
    };

    [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }

    void put(const Slot& slot) {
        std::size_t i = slot.hash & mask();
        while (slots_[i].number >= 0) i = (i + 1) & mask();
        slots_[i] = slot;
    }

    void grow() {
        constexpr std::size_t kFirst = 16;
        const std::vector<Slot> old =
            std::exchange(slots_, std::vector<Slot>(slots_.empty() ? kFirst : 2 * slots_.size()));
        for (const Slot& slot : old) {
            if (slot.number >= 0) put(slot);
        }
    }

    std::vector<Slot> slots_;  ///< as many as a power of two
    std::size_t size_ = 0;
};

}  // namespace partita
