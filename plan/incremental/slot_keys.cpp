// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/slot_keys.h"

#include <algorithm>
#include <bit>

namespace partita::plan {

namespace {

constexpr int kKeyBits = 64;
constexpr int kLeastTaskBits = 16;
constexpr int kMostTaskBits = 31;  // more have no numbers

int bits_for(std::size_t count) {
    return static_cast<int>(std::bit_width(std::max<std::size_t>(count, 1) - 1));
}

}  // namespace

std::optional<SlotKeys> SlotKeys::fitting(const Problem& problem, const Policy& policy) {
    const std::size_t most_events = most_events_of_a_step(problem, policy.gather_again);
    const int place_bits = bits_for(2 * most_events + 1);
    const bool scheduled = policy.schedule.kind != ScheduleKind::none;
    SlotKeys keys;
    const int blocks = splits_backward_of(policy.schedule) ? 3 : 2;
    keys.schedule_keys_ = scheduled ? blocks * policy.micro_batches * policy.schedule.chunks : 1;
    const int priority_bits = bits_for(problem.priority_count());
    const int micro_batch_bits = bits_for(static_cast<std::size_t>(policy.micro_batches));
    const int left = kKeyBits - bits_for(static_cast<std::size_t>(keys.schedule_keys_)) -
                     priority_bits - micro_batch_bits - place_bits;
    if (left < kLeastTaskBits) return std::nullopt;
    keys.place_of_parts_ = most_events;
    keys.place_shift_ = std::min(left, kMostTaskBits);
    keys.micro_batch_shift_ = keys.place_shift_ + place_bits;
    keys.priority_shift_ = keys.micro_batch_shift_ + micro_batch_bits;
    keys.schedule_key_shift_ = keys.priority_shift_ + priority_bits;
    return keys;
}

}  // namespace partita::plan
