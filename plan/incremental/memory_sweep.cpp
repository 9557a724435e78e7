// SPDX-License-Identifier: Apache-2.0
//
// How much is held at most of values whose lives are known.
#include <algorithm>
#include <utility>

#include "plan/incremental/memory.h"

namespace partita::plan {

void IncrementalMemory::add_life(const Value& value, std::int32_t begin, std::int32_t end) {
    const std::int64_t bytes = value.bytes.raw();
    bulk(begin, value.device).begins += bytes;
    bulk(end, value.device).ends += bytes;
    lives_.push_back({.bytes = bytes, .device = value.device, .begin = begin, .end = end});
}

/// All that is ever held is known to be in range.
void IncrementalMemory::sweep() {
    const std::size_t devices = capacities_.size();
    held_.clear();
    for (const Bytes bytes : peaks_) held_.push_back(bytes.raw());
    const std::size_t stretches = bulks_.size() / devices;
    for (std::size_t i = 0; i < stretches; ++i) {
        const Bulk* const here = bulks_.data() + i * devices;
        bool fits = true;
        for (std::size_t d = 0; d < devices; ++d) {
            fits = fits && held_[d] + here[d].begins <= capacities_[d].raw();
        }
        if (!fits) sweep_exactly(i);
        for (std::size_t d = 0; d < devices; ++d) {
            if (fits) peaks_[d] = std::max(peaks_[d], Bytes(held_[d] + here[d].begins));
            held_[d] += here[d].begins - here[d].ends;
        }
    }
}

/// Puts what begins and ends in a stretch into lists.
void IncrementalMemory::link_lives() {
    stretches_.assign(bulks_.size() / capacities_.size(), {});
    for (std::size_t i = 0; i < lives_.size(); ++i) {
        Life& life = lives_[i];
        const auto number = static_cast<std::int32_t>(i);
        life.next_begin = std::exchange(stretches_[at(life.begin >> kStretch)].begins, number);
        life.next_end = std::exchange(stretches_[at(life.end >> kStretch)].ends, number);
    }
}

/// What has ended is freed before anything is allocated, so what is held after each commit is the
/// most.
void IncrementalMemory::sweep_exactly(std::size_t number) {
    const std::size_t devices = capacities_.size();
    if (stretches_.empty()) link_lives();
    const Stretch& stretch = stretches_[number];
    const auto step = [&](const Life& life, std::int32_t position) -> std::int64_t& {
        return steps_[at(position & ((1 << kStretch) - 1)) * devices + at(life.device)];
    };
    steps_.assign(devices << kStretch, 0);
    for (std::int32_t i = stretch.begins; i >= 0; i = lives_[at(i)].next_begin) {
        step(lives_[at(i)], lives_[at(i)].begin) += lives_[at(i)].bytes;
    }
    for (std::int32_t i = stretch.ends; i >= 0; i = lives_[at(i)].next_end) {
        step(lives_[at(i)], lives_[at(i)].end) -= lives_[at(i)].bytes;
    }
    now_held_ = held_;
    const std::int64_t* more = steps_.data();
    for (int i = 0; i < 1 << kStretch; ++i) {
        for (std::size_t d = 0; d < devices; ++d) {
            now_held_[d] += *more++;
            peaks_[d] = std::max(peaks_[d], Bytes(now_held_[d]));
        }
    }
}

}  // namespace partita::plan
