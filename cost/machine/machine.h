// SPDX-License-Identifier: Apache-2.0
//
// Machine: devices, switches and the links that join them.
//
//     node0/gpu0 ──nvlink──▶ node0/switch ──nic──▶ network ──▶ node1/switch ──▶ node1/gpu0
//
// A link becomes channels, the capacities that communication occupies: a duplex link has one per
// direction, a shared link (a bus) one for both, a directed link one. A copy takes the cheapest
// route (routes.h), through other devices where that is cheaper, and occupies every channel of it
// while it lasts: sharing a link means waiting.
//
// Vertices: devices are 0..devices-1, switches follow. Immutable once built, so any number of
// threads may read; copies share their routes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/dtype.h"

namespace partita::cost {

class KernelTable;  // cost/kernels/kernel_table.h

enum class DeviceKind : std::uint8_t { gpu, cpu };

struct Device {
    std::string name;   ///< unique, e.g. "node0/gpu3"
    std::string model;  ///< e.g. "NVIDIA A100-SXM4-80GB"; keys the profile database
    DeviceKind kind = DeviceKind::gpu;
    int node = 0;
    int threads = 1;  ///< of a CPU device: cores that it is, >= 1
    Bytes memory;     ///< capacity, > 0
    /// Of it, what no plan may use: contexts, communicators' buffers, fragmentation. Machine files
    /// that do not say: default_reserved().
    Bytes reserved;
    std::int64_t memory_bandwidth = 0;  ///< bytes/s, > 0
    Time launch_interval;  ///< the host starts one task per interval; no task is shorter
    /// FLOP/s of matrix products per dtype; 0 = as the other type of 16 bits, else as float32. Peak
    /// figures of the vendor.
    std::array<std::int64_t, graph::kDTypeCount> matrix_flops{};
    std::int64_t tf32_flops = 0;    ///< the same of float32 products in TF32; 0 = as float32
    std::int64_t vector_flops = 0;  ///< FLOP/s of everything else, > 0
    /// What its kernels reach of the peaks, by family; null: no table.
    std::shared_ptr<const KernelTable> kernels;
    /// The same of kernels that no table has, in (0, 1]; from data files, with a source.
    double compute_efficiency = 1.0;
    double memory_efficiency = 1.0;
    std::string source;         ///< where the figures come from
    double price_per_hour = 0;  ///< in whatever currency; 0: not said

    [[nodiscard]] std::int64_t matrix_flops_of(
        graph::DType dtype, graph::ProductType type = graph::ProductType::as_stored) const;
    /// Has it units for products of this type? as_stored: yes.
    [[nodiscard]] bool has_products(graph::ProductType type) const;
    /// Has it a rate, or its other type of 16 bits?
    [[nodiscard]] bool names_rate_of(graph::DType dtype) const;
};

/// 5 % of a GPU's memory: what PyTorch's allocator took beyond what it gave out in 16 measured runs
/// (docs/design-notes.md, "Reserved memory"). None of a CPU's.
Bytes default_reserved(DeviceKind kind, Bytes memory);

enum class LinkMode : std::uint8_t { duplex, directed, shared };

struct Link {
    std::string name;
    int from = 0;                ///< vertex
    int to = 0;                  ///< vertex
    std::int64_t bandwidth = 0;  ///< bytes/s per channel, > 0; peak figure of the vendor
    Time latency;                ///< >= 0
    LinkMode mode = LinkMode::duplex;
    double efficiency = 1.0;  ///< share of the peak that copies reach, in (0, 1]
    std::string source;       ///< where the figures come from
};

struct Channel {
    std::string name;  ///< "node0/gpu0>node0/switch"
    int link = 0;
    std::int64_t bandwidth = 0;  ///< bytes/s that copies reach, > 0
    Time latency;
};

/// The way from one device to another.
struct Route {
    std::vector<std::int32_t> channels;  ///< from source to destination
    Time latency;                        ///< sum over the channels
    std::int64_t bandwidth = 0;          ///< the slowest channel, bytes/s
};

/// What a machine knows of collectives beyond its links.
struct MachineCollectives {
    std::string model;  ///< a file of data/collectives/models without ".json"; empty: none
    std::vector<int> reducing_switches;  ///< positions in switches(), rising: they add what passes
    std::string source;                  ///< where this comes from
    /// Extents of the torus, or grid, that the devices of every node are in their order, the last axis
    /// fastest; empty: they are none.
    std::vector<int> torus;
};

class FoldedRoutes;
class GroupLinks;
class GroupLinksCache;
class Routes;

/// A machine has at most so many of each.
inline constexpr int kMostDevices = 65'536;
inline constexpr int kMostSwitches = 65'536;
inline constexpr int kMostLinks = 196'608;
inline constexpr std::size_t kMostTorusAxes = 4;

class Machine {
public:
    /// Throws InputError, beginning with the field ("links[3].to: ..."), when two devices are not
    /// connected, a figure is out of range, a name is empty or repeated, or there is too much of
    /// it. A link without a name is named after what it joins.
    Machine(std::string name, std::vector<Device> devices, std::vector<std::string> switches,
            std::vector<Link> links, MachineCollectives collectives = {});

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] int device_count() const { return static_cast<int>(devices_.size()); }
    [[nodiscard]] const Device& device(int id) const { return devices_[static_cast<size_t>(id)]; }
    [[nodiscard]] std::span<const Device> devices() const { return devices_; }
    [[nodiscard]] std::span<const std::string> switches() const { return switches_; }
    [[nodiscard]] std::span<const Link> links() const { return links_; }
    [[nodiscard]] std::span<const Channel> channels() const { return channels_; }

    [[nodiscard]] const MachineCollectives& collectives() const { return collectives_; }
    /// Those of MachineCollectives::reducing_switches that have a link to the device, rising.
    [[nodiscard]] const std::vector<int>& reducing_switches_of(int device) const {
        return reducing_switches_of_[static_cast<size_t>(device)];
    }

    /// `from` != `to`.
    [[nodiscard]] Route route(int from, int to) const;
    /// The channels of that route alone, behind those already there.
    void append_route(int from, int to, std::vector<std::int32_t>& channels) const;
    [[nodiscard]] const std::string& vertex_name(int vertex) const;

    /// Time of one copy alone on its route: latency + bytes / bandwidth, rounded up.
    [[nodiscard]] Time copy_time(int from, int to, Bytes size) const;

    /// What the links mean for distinct devices that communicate (group_links.h).
    [[nodiscard]] std::shared_ptr<const GroupLinks> group_links(std::span<const int> devices) const;

private:
    void name_links();
    void check() const;
    void check_torus() const;
    void build_channels();
    void find_reducing_switches();
    /// Calls visit(channel) along the route.
    template <class Visit>
    void walk(int from, int to, Visit visit) const;

    std::string name_;
    std::vector<Device> devices_;
    std::vector<std::string> switches_;
    std::vector<Link> links_;
    std::vector<Channel> channels_;
    MachineCollectives collectives_;
    std::vector<std::vector<int>> reducing_switches_of_;  ///< per device
    /// Shared by copies: a machine never changes.
    std::shared_ptr<const Routes> routes_;
    std::shared_ptr<const FoldedRoutes> folded_;  ///< null: no node stands for others
    std::shared_ptr<GroupLinksCache> groups_;
};

/// SHA-256 of everything but the `source` texts.
std::string digest(const Machine& machine);

}  // namespace partita::cost
