// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/block_ends.h"

#include <algorithm>
#include <cassert>

namespace partita::plan {

namespace {

void erase(std::vector<Slot>& slots, Slot slot) {
    const auto at = std::find(slots.begin(), slots.end(), slot);
    assert(at != slots.end());
    *at = slots.back();
    slots.pop_back();
}

}  // namespace

BlockEnds::BlockEnds(int devices, int schedule_keys)
    : schedule_keys_(schedule_keys),
      blocks_(static_cast<std::size_t>(devices) * static_cast<std::size_t>(schedule_keys)) {}

void BlockEnds::add(Number block, Slot slot, bool is_first, bool is_last) {
    Ends& ends = at(block);
    ++ends.slots;
    if (is_first) ends.firsts.push_back(slot);
    if (is_last) ends.lasts.push_back(slot);
}

void BlockEnds::remove(Number block, Slot slot, bool is_first, bool is_last) {
    Ends& ends = at(block);
    --ends.slots;
    if (is_first) erase(ends.firsts, slot);
    if (is_last) erase(ends.lasts, slot);
}

BlockEnds::Number BlockEnds::previous(Number block) const {
    const Number begin = block - block % schedule_keys_;
    while (--block >= begin) {
        if (at(block).slots > 0) return block;
    }
    return kNone;
}

BlockEnds::Number BlockEnds::next(Number block) const {
    const Number end = block - block % schedule_keys_ + schedule_keys_;
    while (++block < end) {
        if (at(block).slots > 0) return block;
    }
    return kNone;
}

}  // namespace partita::plan
