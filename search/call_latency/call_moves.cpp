// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_moves.h"

#include <algorithm>
#include <limits>

namespace partita::search {

namespace {

template <class T>
std::size_t index(T i) {
    return static_cast<std::size_t>(i);
}

/// Draws for a group of one slot, before giving up.
constexpr int kMostDraws = 8;

/// Regions that make room for each other.
constexpr int kMostEjections = 3;

}  // namespace

CallMoves::CallMoves(const CallSpace& space) : space_(space), in_region_(space.size(), 0) {}

const Csr<std::int32_t>& CallMoves::lists(Way way) const {
    switch (way) {
    case Way::around: return space_.neighbours;
    case Way::behind: return space_.successors;
    case Way::before: return space_.predecessors;
    }
    return space_.neighbours;
}

/// A slot next to a group, mostly; else the CPUs, or any.
std::int32_t CallMoves::draw_slot(const CallState& state, std::int32_t group,
                                  Random& random) const {
    const auto near = space_.neighbours[index(group)];
    const std::uint64_t draw = random.below(16);
    if (draw < 11 && !near.empty()) return state.slot(near[random.below(near.size())]);
    if (draw < 13 && space_.cpus >= 0) return space_.cpus;
    return static_cast<std::int32_t>(random.below(space_.slot_count()));
}

std::size_t CallMoves::draw_size(Random& random) const {
    std::size_t size = 1;
    if (random.below(8) < 3) return size;
    while (size < space_.size() && random.below(8) != 0) size += 1 + size / 3;
    return size;
}

/// Breadth first from the seed, inside its slot.
void CallMoves::grow(const CallState& state, std::int32_t seed, Size size, Way way) {
    const std::int32_t slot = state.slot(seed);
    const Csr<std::int32_t>& next = lists(way);
    region_.assign(1, seed);
    in_region_[index(seed)] = 1;
    region_bytes_ = space_.bytes[index(seed)];
    const auto is_full = [&] {
        return region_.size() >= size.groups || region_bytes_ >= size.bytes;
    };
    for (std::size_t i = 0; i < region_.size() && !is_full(); ++i) {
        for (const std::int32_t group : next[index(region_[i])]) {
            if (in_region_[index(group)] != 0 || state.slot(group) != slot) continue;
            if (is_full()) break;
            in_region_[index(group)] = 1;
            region_.push_back(group);
            region_bytes_ += space_.bytes[index(group)];
        }
    }
    for (const std::int32_t group : region_) in_region_[index(group)] = 0;
}

bool CallMoves::put_region(CallState& state, std::int32_t slot) const {
    for (const std::int32_t group : region_) {
        if (!space_.allows(index(group), slot)) return false;
        state.move(group, slot);
    }
    return true;
}

/// So many bytes leave a slot, for another one, for the CPUs or for anywhere, where others make
/// room for them.
bool CallMoves::make_room(CallState& state, std::int32_t slot, std::int32_t other, int depth,
                          Random& random) {
    const std::int64_t wanted = slot == space_.cpus ? 0 : -state.room(slot);
    if (wanted <= 0) return true;
    if (depth == 0) return false;
    std::int32_t seed = -1;
    for (int i = 0; i < kMostDraws && seed < 0; ++i) {
        const auto group = static_cast<std::int32_t>(random.below(space_.size()));
        if (state.slot(group) == slot) seed = group;
    }
    if (seed < 0) return false;
    grow(state, seed, {space_.size(), wanted}, static_cast<Way>(random.below(3)));
    if (region_bytes_ < wanted) return false;
    const std::uint64_t draw = random.below(8);
    std::int32_t to = other;
    if (draw < 2 && space_.cpus >= 0) to = space_.cpus;
    if (draw == 2) to = static_cast<std::int32_t>(random.below(space_.slot_count()));
    return to != slot && put_region(state, to) && make_room(state, to, slot, depth - 1, random);
}

bool CallMoves::shift(CallState& state, std::int32_t group, Random& random) {
    const std::int32_t from = state.slot(group);
    const std::int32_t to = draw_slot(state, group, random);
    if (to == from) return false;
    grow(state, group, {draw_size(random), std::numeric_limits<std::int64_t>::max()},
         static_cast<Way>(random.below(3)));
    const bool fits = to == space_.cpus || region_bytes_ <= state.room(to);
    if (!fits && random.below(2) == 0) return false;
    return put_region(state, to) && (fits || make_room(state, to, from, kMostEjections, random));
}

bool CallMoves::merge(CallState& state, std::int32_t group, Random& random) const {
    const std::int32_t from = state.slot(group);
    const std::int32_t to = draw_slot(state, group, random);
    if (to == from) return false;
    for (std::size_t g = 0; g < space_.size(); ++g) {
        const auto each = static_cast<std::int32_t>(g);
        if (state.slot(each) != from || !space_.allows(g, to)) continue;
        if (to != space_.cpus && space_.bytes[g] > state.room(to)) continue;
        state.move(each, to);
    }
    return state.is_changed();
}

bool CallMoves::cut(CallState& state, std::int32_t group) {
    for (std::size_t s = 0; s < space_.slot_count(); ++s) {
        const auto slot = static_cast<std::int32_t>(s);
        if (slot == space_.cpus || slot == state.slot(group)) continue;
        if (state.room(slot) != space_.capacity[s]) continue;
        grow(state, group, {space_.size(), std::numeric_limits<std::int64_t>::max()}, Way::behind);
        return put_region(state, slot);
    }
    return false;
}

bool CallMoves::propose(CallState& state, Random& random) {
    const std::int64_t overflow = state.overflow();
    const auto group = static_cast<std::int32_t>(random.below(space_.size()));
    const std::uint64_t draw = random.below(32);
    const bool changed = draw == 0   ? merge(state, group, random)
                         : draw == 1 ? cut(state, group)
                                     : shift(state, group, random);
    return changed && state.overflow() <= overflow;
}

}  // namespace partita::search
