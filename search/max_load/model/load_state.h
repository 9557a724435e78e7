// SPDX-License-Identifier: Apache-2.0
//
// An assignment of the vertices of a load graph to devices, with loads and bytes of all devices
// kept along. A vertex v that leaves device a for b changes the loads of these two and no other,
// and what it changes on a does not depend on b. For a net of n pins, with as many on a and on b as
// given before the move:
//
//     on a      n: was whole, is cut now      + cost        1: a has none left        - cost
//     on b      0: b has one now              + cost        n - 1: is whole now       - cost
//
// and nothing for devices that do not communicate.
// Exact: all in integers. Time: a price looks at the nets of v. No allocation but in the
// constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/max_load/model/load_graph.h"

namespace partita::search {

/// Largest load and bytes too many of an assignment; lexicographic, less is better.
struct LoadScore {
    std::int64_t overflow = 0;  ///< bytes above capacity, summed over devices
    std::int64_t load = 0;      ///< largest, picoseconds
    friend auto operator<=>(const LoadScore&, const LoadScore&) = default;
};

class LoadState {
public:
    /// Graph and devices must outlive it. Everything starts on device 0.
    LoadState(const LoadGraph& graph, const std::vector<LoadDevice>& devices);

    void assign(std::span<const std::int32_t> device_of);

    [[nodiscard]] const LoadGraph& graph() const { return *graph_; }
    [[nodiscard]] std::size_t device_count() const { return devices_->size(); }
    [[nodiscard]] const std::vector<std::int32_t>& device_of() const { return device_of_; }
    [[nodiscard]] std::int32_t device_of(std::size_t v) const { return device_of_[v]; }
    [[nodiscard]] std::int64_t load(std::size_t device) const { return loads_[device]; }
    [[nodiscard]] std::int64_t bytes(std::size_t device) const { return bytes_[device]; }
    [[nodiscard]] std::int64_t capacity(std::size_t device) const {
        return (*devices_)[device].capacity;
    }
    [[nodiscard]] LoadScore score() const;

    [[nodiscard]] bool allowed(std::size_t v, std::size_t device) const;
    /// What v's device gains in load when v leaves it; mostly negative.
    [[nodiscard]] std::int64_t leaving(std::size_t v) const;
    /// What the load of another device, on which v is allowed, gains when v comes.
    [[nodiscard]] std::int64_t joining(std::size_t v, std::size_t device) const;

    /// To another device; the gains are those above.
    void move(std::size_t v, std::size_t device, std::int64_t leaving, std::int64_t joining);
    void move(std::size_t v, std::size_t device) {
        move(v, device, leaving(v), joining(v, device));
    }

private:
    [[nodiscard]] const std::int32_t* counts(std::int32_t net) const {
        return counts_.data() + static_cast<std::size_t>(net) * devices_->size();
    }

    const LoadGraph* graph_;
    const std::vector<LoadDevice>* devices_;
    std::vector<std::int32_t> device_of_;
    std::vector<std::int32_t> counts_;  ///< pins per net and device
    std::vector<std::int32_t> sizes_;   ///< pins per net
    std::vector<std::int64_t> loads_;
    std::vector<std::int64_t> bytes_;
};

}  // namespace partita::search
