// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/stream_clocks.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace partita::runtime {

namespace {

constexpr std::size_t kMostRaces = 10;

void join(VectorClock& clock, const VectorClock& other) {
    for (const auto& [stream, count] : other) {
        std::int64_t& own = clock[stream];
        own = std::max(own, count);
    }
}

std::int64_t at(const VectorClock& clock, StreamId stream) {
    const auto found = clock.find(stream);
    return found == clock.end() ? 0 : found->second;
}

std::string text_of(StreamId stream) {
    return "gpu " + std::to_string(stream.first) + " stream " + std::to_string(stream.second);
}

void add_elements(const Access& access, std::size_t dim, std::uintptr_t at,
                  std::vector<std::uintptr_t>& elements) {
    if (dim == access.sizes.size()) return elements.push_back(at);
    for (std::int64_t i = 0; i < access.sizes[dim]; ++i) {
        add_elements(access, dim + 1, at + i * access.strides[dim], elements);
    }
}

/// Where they begin, sorted.
std::vector<std::uintptr_t> elements_of(const Access& access) {
    std::vector<std::uintptr_t> elements;
    add_elements(access, 0, access.begin, elements);
    std::ranges::sort(elements);
    return elements;
}

}  // namespace

bool overlap(const Access& a, const Access& b) {
    if (a.begin >= b.end || b.begin >= a.end) return false;
    std::vector<std::uintptr_t> common;
    std::ranges::set_intersection(elements_of(a), elements_of(b), std::back_inserter(common));
    return !common.empty();
}

VectorClock& StreamClocks::clock(StreamId stream) {
    return clocks_[stream];
}

bool StreamClocks::is_before(const Use& use, StreamId stream) const {
    if (use.stream == stream || at(quiet_, use.stream) >= use.at) return true;
    const auto found = clocks_.find(stream);
    return found != clocks_.end() && at(found->second, use.stream) >= use.at;
}

StreamClocks::Block* StreamClocks::block_of(std::uintptr_t address) {
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return nullptr;
    Block& block = std::prev(next)->second;
    return address < block.end ? &block : nullptr;
}

void StreamClocks::report(const Use& earlier, const std::string& later) {
    if (races_.size() >= kMostRaces) return;
    races_.push_back(earlier.what + " on " + text_of(earlier.stream) +
                     (earlier.access.writes ? " writes" : " reads") + " what " + later +
                     " uses, which need not come after it");
}

void StreamClocks::use(Block& block, const Use& use) {
    for (const Use& earlier : block.uses) {
        if (!earlier.access.writes && !use.access.writes) continue;
        if (is_before(earlier, use.stream) || !overlap(earlier.access, use.access)) continue;
        report(earlier, use.what + " on " + text_of(use.stream) +
                            (use.access.writes ? " (writes)" : " (reads)"));
    }
    const auto is_replaced = [&](const Use& earlier) {
        const bool covers = use.access.begin == earlier.access.begin &&
                            use.access.sizes == earlier.access.sizes &&
                            use.access.strides == earlier.access.strides;
        const bool as_strong = use.access.writes || !earlier.access.writes;
        return covers && as_strong && is_before(earlier, use.stream);
    };
    std::erase_if(block.uses, is_replaced);
    block.uses.push_back(use);
}

void StreamClocks::run(StreamId stream, const std::string& what,
                       const std::vector<Access>& accesses) {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = ++clock(stream)[stream];
    for (const Access& access : accesses) {
        if (Block* const block = block_of(access.begin)) use(*block, {stream, now, access, what});
    }
}

VectorClock StreamClocks::now(StreamId stream) {
    const std::lock_guard lock(mutex_);
    return clock(stream);
}

void StreamClocks::wait(StreamId stream, const VectorClock& until) {
    const std::lock_guard lock(mutex_);
    join(clock(stream), until);
}

void StreamClocks::look_for_quiet() {
    std::set<int> busy;
    for (const auto& [stream, clock] : clocks_) {
        if (at(seen_, stream) < at(clock, stream)) busy.insert(stream.first);
    }
    for (const auto& [stream, count] : seen_) {
        if (!busy.contains(stream.first)) quiet_[stream] = count;
    }
}

void StreamClocks::wait_on_host(StreamId stream) {
    const std::lock_guard lock(mutex_);
    join(seen_, clock(stream));
    join(quiet_, clock(stream));
    look_for_quiet();  // this stream may be what other streams of its device lacked
}

void StreamClocks::seen_by_host(const VectorClock& clock) {
    const std::lock_guard lock(mutex_);
    join(seen_, clock);
    look_for_quiet();
}

void StreamClocks::seen_by_host(int device) {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, clock] : clocks_) {
        if (stream.first == device) join(seen_, clock);
    }
    look_for_quiet();
}

void StreamClocks::forget() {
    const std::lock_guard lock(mutex_);
    clocks_.clear();
    seen_.clear();
    quiet_.clear();
    races_.clear();
    for (auto& [begin, block] : blocks_) {
        block.users.clear();
        block.uses.clear();
    }
}

void StreamClocks::allocated(std::uintptr_t begin, std::size_t bytes, StreamId stream) {
    const std::lock_guard lock(mutex_);
    blocks_[begin] = {.end = begin + bytes, .owner = stream, .users = {}, .uses = {}};
}

void StreamClocks::used_by(std::uintptr_t begin, StreamId stream) {
    const std::lock_guard lock(mutex_);
    if (Block* const block = block_of(begin)) block->users.push_back(stream);
}

void StreamClocks::given_back(std::uintptr_t begin) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_[begin];
    for (const Use& use : block.uses) {
        const bool is_known = std::ranges::find(block.users, use.stream) != block.users.end();
        if (is_known || is_before(use, block.owner)) continue;
        report(use, "whoever gets the memory next on " + text_of(block.owner));
    }
    blocks_.erase(begin);
}

std::vector<std::string> StreamClocks::take_races() {
    const std::lock_guard lock(mutex_);
    return std::exchange(races_, {});
}

}  // namespace partita::runtime
