// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/piece_devices.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "plan/evaluation/max_load.h"

namespace partita::search {

namespace {

constexpr std::size_t kMostStates = 16'384;

/// What makes devices differ.
struct Traits {
    int device_class = 0;
    Bytes capacity;
    bool communicates = true;
    std::vector<bool> sets;  ///< which sets of allowed devices hold it
    friend bool operator==(const Traits&, const Traits&) = default;
};

Traits traits_of(const GroupGraph& groups, bool given, int device) {
    const plan::Problem& problem = groups.problem();
    Traits traits;
    traits.device_class = problem.prices().device_class(device);
    const bool cpu = problem.machine().device(device).kind == cost::DeviceKind::cpu;
    traits.communicates = !given || !cpu;
    traits.capacity = given && cpu ? Bytes::max() : problem.constraints().memory_capacity(device);
    for (const std::vector<int>& set : groups.groups().device_sets) {
        traits.sets.push_back(std::binary_search(set.begin(), set.end(), device));
    }
    return traits;
}

std::vector<PieceKind> kinds_of(const GroupGraph& groups) {
    const bool given = plan::has_given_costs(groups.problem());
    std::vector<Traits> known;
    std::vector<PieceKind> kinds;
    for (int device = 0; device < groups.device_count(); ++device) {
        const Traits traits = traits_of(groups, given, device);
        const auto same = std::find(known.begin(), known.end(), traits);
        const auto at = static_cast<std::size_t>(same - known.begin());
        if (same == known.end()) {
            known.push_back(traits);
            kinds.push_back({.devices = {},
                             .capacity = traits.capacity,
                             .communicates = traits.communicates,
                             .stride = 0,
                             .from = {}});
        }
        kinds[at].devices.push_back(device);
    }
    return kinds;
}

/// One kind for each device, in order of the devices.
std::vector<PieceKind> singles(const std::vector<PieceKind>& kinds) {
    std::vector<PieceKind> all;
    for (const PieceKind& kind : kinds) {
        for (const int device : kind.devices) {
            all.push_back(kind);
            all.back().devices = {device};
        }
    }
    std::sort(all.begin(), all.end(), [](const PieceKind& a, const PieceKind& b) {
        return a.devices.front() < b.devices.front();
    });
    return all;
}

}  // namespace

std::size_t PieceDevices::used(std::size_t kind, std::size_t state) const {
    if (in_turn) return state > kind ? 1 : 0;
    return state / kinds[kind].stride % (kinds[kind].devices.size() + 1);
}

std::size_t PieceDevices::transitions() const {
    std::size_t sum = 0;
    for (const PieceKind& kind : kinds) sum += kind.from.size();
    return sum;
}

PieceDevices make_piece_devices(const GroupGraph& groups) {
    PieceDevices devices;
    devices.kinds = kinds_of(groups);
    for (PieceKind& kind : devices.kinds) {
        kind.stride = devices.states;
        devices.states *= kind.devices.size() + 1;
        if (devices.states <= kMostStates) continue;
        devices.in_turn = true;
        break;
    }
    if (devices.in_turn) {
        devices.kinds = singles(devices.kinds);
        devices.states = devices.kinds.size() + 1;
        for (std::size_t k = 0; k < devices.kinds.size(); ++k) {
            devices.kinds[k].stride = 1;
            devices.kinds[k].from = {static_cast<std::uint32_t>(k)};
        }
        return devices;
    }
    for (std::size_t k = 0; k < devices.kinds.size(); ++k) {
        PieceKind& kind = devices.kinds[k];
        for (std::size_t state = 0; state < devices.states; ++state) {
            if (devices.used(k, state) == kind.devices.size()) continue;
            kind.from.push_back(static_cast<std::uint32_t>(state));
        }
    }
    return devices;
}

}  // namespace partita::search
