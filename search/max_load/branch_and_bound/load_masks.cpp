// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_masks.h"

#include <algorithm>
#include <bit>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

/// Shorter things are not counted: they fill gaps.
constexpr std::int64_t kMostPerDevice = 12;

/// Calls visit(d) for every device of a mask.
template <class Visit>
void for_devices(DeviceMask mask, Visit visit) {
    for (; mask != 0; mask &= mask - 1) visit(static_cast<std::size_t>(std::countr_zero(mask)));
}

}  // namespace

LoadMasks::LoadMasks(const LoadProblem& problem)
    : problem_(problem),
      graph_(problem.graph),
      devices_(problem.devices.size()),
      load_(devices_),
      bytes_(devices_),
      comes_(graph_.size * devices_),
      stays_(graph_.size * devices_) {
    for (std::size_t d = 0; d < devices_; ++d) {
        if (problem.devices[d].communicates) communicating_ |= DeviceMask{1} << d;
    }
    main_kind_ = main_kind(problem);
    for (std::size_t d = 0; d < devices_; ++d) {
        if (problem.devices[d].kind == main_kind_) main_devices_ |= DeviceMask{1} << d;
    }
    lengths_.reserve(graph_.size);
}

std::vector<DeviceMask> LoadMasks::all() const {
    std::vector<DeviceMask> masks(graph_.size);
    for (std::size_t v = 0; v < graph_.size; ++v) {
        for (std::size_t d = 0; d < devices_; ++d) {
            const bool allowed = graph_.time(v, problem_.devices[d].kind) < kNever;
            if (allowed) masks[v] |= DeviceMask{1} << d;
        }
    }
    return masks;
}

void LoadMasks::sum_nets(std::span<const DeviceMask> masks) {
    for (std::size_t net = 0; net < graph_.net_count(); ++net) {
        const auto pins = graph_.pins[net];
        DeviceMask here = 0;     // devices that hold a pin for certain
        DeviceMask lacking = 0;  // devices that a pin cannot come to
        for (const std::int32_t pin : pins) {
            const DeviceMask mask = masks[static_cast<std::size_t>(pin)];
            if (std::has_single_bit(mask)) here |= mask;
            lacking |= ~mask;
        }
        const std::int64_t cost = graph_.costs[net];
        for_devices(here & lacking & communicating_, [&](std::size_t d) { load_[d] += cost; });
        const DeviceMask cut = lacking & ~here & communicating_;
        const DeviceMask whole = here & ~lacking & communicating_;
        for (const std::int32_t pin : pins) {
            const auto v = static_cast<std::size_t>(pin);
            if (std::has_single_bit(masks[v])) continue;
            for_devices(masks[v] & cut, [&](std::size_t d) { comes_[v * devices_ + d] += cost; });
            for_devices(masks[v] & whole, [&](std::size_t d) { stays_[v * devices_ + d] += cost; });
        }
    }
}

void LoadMasks::sum(std::span<const DeviceMask> masks) {
    std::fill(load_.begin(), load_.end(), 0);
    std::fill(bytes_.begin(), bytes_.end(), 0);
    std::fill(comes_.begin(), comes_.end(), 0);
    std::fill(stays_.begin(), stays_.end(), 0);
    for (std::size_t v = 0; v < graph_.size; ++v) {
        if (!std::has_single_bit(masks[v])) continue;
        const auto d = static_cast<std::size_t>(std::countr_zero(masks[v]));
        load_[d] += graph_.time(v, problem_.devices[d].kind);
        bytes_[d] += graph_.bytes[v];
    }
    sum_nets(masks);
}

bool LoadMasks::fits() const {
    for (std::size_t d = 0; d < devices_; ++d) {
        if (load_[d] >= target_ || bytes_[d] > problem_.devices[d].capacity) return false;
    }
    return true;
}

DeviceMask LoadMasks::left_for(std::size_t v, DeviceMask mask) const {
    DeviceMask left = mask;
    DeviceMask forced = 0;
    for_devices(mask, [&](std::size_t d) {
        const LoadDevice& device = problem_.devices[d];
        const std::int64_t load = load_[d] + graph_.time(v, device.kind) + comes_[v * devices_ + d];
        const bool fits = load < target_ && graph_.bytes[v] <= device.capacity - bytes_[d];
        if (!fits) left &= ~(DeviceMask{1} << d);
        if (load_[d] + stays_[v * devices_ + d] >= target_) forced |= DeviceMask{1} << d;
    });
    if (forced == 0) return left;
    return std::has_single_bit(forced) ? left & forced : 0;
}

bool LoadMasks::propagate(std::span<DeviceMask> masks, std::int64_t target) {
    target_ = target;
    for (bool changed = true; changed;) {
        changed = false;
        sum(masks);
        if (!fits()) return false;
        for (std::size_t v = 0; v < graph_.size; ++v) {
            if (std::has_single_bit(masks[v])) continue;
            const DeviceMask left = left_for(v, masks[v]);
            if (left == 0) return false;
            changed = changed || left != masks[v];
            masks[v] = left;
        }
    }
    return packs(masks);
}

/// Things of at least some length, those that must go to devices of the main kind: are there places
/// for all?
bool LoadMasks::packs(std::span<const DeviceMask> masks) {
    std::int64_t most = 0;
    for_devices(main_devices_,
                [&](std::size_t d) { most = std::max(most, target_ - 1 - load_[d]); });
    lengths_.clear();
    for (std::size_t v = 0; v < graph_.size; ++v) {
        if (std::has_single_bit(masks[v]) || (masks[v] & ~main_devices_) != 0) continue;
        const std::int64_t time = graph_.time(v, main_kind_);
        if (time > most / kMostPerDevice) lengths_.push_back(time);
    }
    std::sort(lengths_.begin(), lengths_.end());
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
        const std::int64_t unit = lengths_[i];
        if (i > 0 && unit == lengths_[i - 1]) continue;
        std::int64_t wanted = 0;
        for (std::size_t j = i; j < lengths_.size(); ++j) wanted += lengths_[j] / unit;
        for_devices(main_devices_,
                    [&](std::size_t d) { wanted -= (target_ - 1 - load_[d]) / unit; });
        if (wanted > 0) return false;
    }
    return true;
}

void LoadMasks::find_twins(std::span<const DeviceMask> masks,
                           std::vector<std::size_t>& twins) const {
    DeviceMask used = 0;
    for (const DeviceMask mask : masks) {
        if (std::has_single_bit(mask)) used |= mask;
    }
    const auto alike = [&](std::size_t a, std::size_t b) {
        if (problem_.devices[a].kind != problem_.devices[b].kind) return false;
        if (((used >> a) & 1U) != 0 || ((used >> b) & 1U) != 0) return false;
        return std::all_of(masks.begin(), masks.end(), [&](DeviceMask mask) {
            return ((mask >> a) & 1U) == ((mask >> b) & 1U);
        });
    };
    twins.clear();
    for (std::size_t d = 0; d < devices_; ++d) {
        std::size_t twin = 0;
        while (twin < d && !alike(twin, d)) ++twin;
        twins.push_back(twin);
    }
}

}  // namespace partita::search
