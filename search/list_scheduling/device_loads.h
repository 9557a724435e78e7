// SPDX-License-Identifier: Apache-2.0
//
// What the devices hold while a placer works: computation and bytes of the groups given to each.
// Bytes are GroupGraph's estimate; the exact peak is the evaluator's matter
// (search/list_scheduling/memory_repair.h).
#pragma once

#include <vector>

#include "base/units.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

class DeviceLoads {
public:
    explicit DeviceLoads(const GroupGraph& graph);

    [[nodiscard]] Time load(int device) const { return load_[static_cast<std::size_t>(device)]; }
    [[nodiscard]] Bytes bytes(int device) const { return bytes_[static_cast<std::size_t>(device)]; }
    [[nodiscard]] Bytes room(int device) const {
        const auto d = static_cast<std::size_t>(device);
        return limit_[d] - bytes_[d];
    }
    void set_limit(int device, Bytes limit) { limit_[static_cast<std::size_t>(device)] = limit; }

    [[nodiscard]] bool fits(std::size_t group, int device) const {
        return graph_.bytes(group) <= room(device);
    }
    /// Load of the device if it took the group.
    [[nodiscard]] Time finish(std::size_t group, int device) const {
        return load(device) + graph_.time(group, device);
    }
    void add(std::size_t group, int device);
    void remove(std::size_t group, int device);

    /// Of the allowed devices with room the one with the smallest finish(); -1 when none has room.
    [[nodiscard]] int least_loaded(std::size_t group) const;
    /// Of the allowed devices the one with most room, whether it suffices or not.
    [[nodiscard]] int roomiest(std::size_t group) const;
    /// The first of `preferred` that is allowed and has room, else the roomiest.
    [[nodiscard]] int first_fit(std::size_t group, const std::vector<int>& preferred) const;

private:
    const GroupGraph& graph_;
    std::vector<Time> load_;
    std::vector<Bytes> bytes_;
    std::vector<Bytes> limit_;
};

}  // namespace partita::search
