// SPDX-License-Identifier: Apache-2.0
//
// What follows from devices that vertices of a load graph may not use, when no load may reach a
// target and every device must hold what lies on it. Let the load of a device that is certain be
// the time of the vertices that can go nowhere else, and the cost of the nets that hold one of
// these and a vertex that cannot come here:
//
//     v is excluded from d   when d's certain load, with v and the nets that v would cut for certain, is too much
//     v is forced to d       when d's certain load, with the nets that are cut if v is elsewhere, is too much
//
// Sound: no assignment below the target is lost. Allocates in the constructor only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/max_load/branch_and_bound/load_relaxation.h"
#include "search/max_load/model/load_graph.h"

namespace partita::search {

class LoadMasks {
public:
    explicit LoadMasks(const LoadProblem& problem);

    /// Devices that may run each vertex at all.
    [[nodiscard]] std::vector<DeviceMask> all() const;

    /// Excludes and forces until nothing changes. False: no assignment is left.
    bool propagate(std::span<DeviceMask> masks, std::int64_t target);

    /// Per device the load that is certain, after propagate().
    [[nodiscard]] std::span<const std::int64_t> loads() const { return load_; }

    /// Per device the first that is interchangeable with it: of one kind, nothing fixed on either,
    /// and the same vertices excluded.
    void find_twins(std::span<const DeviceMask> masks, std::vector<std::size_t>& twins) const;

private:
    void sum(std::span<const DeviceMask> masks);
    void sum_nets(std::span<const DeviceMask> masks);
    [[nodiscard]] bool fits() const;
    [[nodiscard]] bool packs(std::span<const DeviceMask> masks);
    /// The devices that are left for v.
    [[nodiscard]] DeviceMask left_for(std::size_t v, DeviceMask mask) const;

    const LoadProblem& problem_;
    const LoadGraph& graph_;
    std::size_t devices_;
    DeviceMask communicating_ = 0;
    std::size_t main_kind_ = 0;
    DeviceMask main_devices_ = 0;
    std::int64_t target_ = 0;
    std::vector<std::int64_t> lengths_;
    std::vector<std::int64_t> load_;   ///< certain, per device
    std::vector<std::int64_t> bytes_;  ///< certain, per device
    std::vector<std::int64_t> comes_;  ///< per vertex and device: certainly cut if it comes
    std::vector<std::int64_t> stays_;  ///< per vertex and device: cut if it does not
};

}  // namespace partita::search
