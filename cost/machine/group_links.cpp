// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/group_links.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace partita::cost {

namespace {

constexpr std::size_t kMostGroups = 65'536;

/// Counts the flows of one round on the channels of a machine.
class FlowCounter {
public:
    explicit FlowCounter(const Machine& machine)
        : machine_(machine), flows_(machine.channels().size()) {}

    /// `times` flows from one to the other.
    void add(int from, int to, std::int64_t times = 1) {
        route_.clear();
        machine_.append_route(from, to, route_);
        Time latency;
        for (const std::int32_t channel : route_) {
            const auto i = static_cast<std::size_t>(channel);
            latency += machine_.channels()[i].latency;
            if (std::exchange(flows_[i], flows_[i] + times) == 0) used_.push_back(channel);
        }
        latency_ = std::max(latency_, latency);
    }

    /// The round so far; the next one starts empty.
    Round finish() {
        Round worst{.latency = std::exchange(latency_, Time{0})};
        for (const std::int32_t channel : used_) {
            const auto i = static_cast<std::size_t>(channel);
            const std::int64_t flows = std::exchange(flows_[i], 0);
            const std::int64_t bandwidth = machine_.channels()[i].bandwidth;
            if (static_cast<Int128>(flows) * worst.bandwidth >
                static_cast<Int128>(worst.flows) * bandwidth) {
                worst.flows = flows;
                worst.bandwidth = bandwidth;
            }
        }
        used_.clear();
        return worst;
    }

private:
    const Machine& machine_;
    std::vector<std::int64_t> flows_;
    std::vector<std::int32_t> used_;
    std::vector<std::int32_t> route_;
    Time latency_;
};

void add_ring(FlowCounter& counter, std::span<const int> devices) {
    if (devices.size() < 2) return;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        counter.add(devices[i], devices[(i + 1) % devices.size()]);
    }
}

/// Every device to the one that comes `shift` later, around.
void add_shift(FlowCounter& counter, std::span<const int> devices, std::size_t shift,
               std::int64_t times = 1) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
        counter.add(devices[i], devices[(i + shift) % devices.size()], times);
    }
}

/// Shifts that stand for so many, themselves included: together for all of them. All stand for
/// themselves unless the routes of all pairs have more than kMostSteps channels (4,096 devices in a
/// line have 23 billion); what is left out lies between shifts that are there.
std::vector<std::pair<std::size_t, std::int64_t>> shifts_of(const Machine& machine,
                                                            std::span<const int> devices) {
    constexpr std::size_t kMostSteps = std::size_t{1} << 24U;
    if (devices.size() < 2) return {};
    std::vector<std::int32_t> routes;  // of the shift that is longest on a line
    const std::size_t half = devices.size() / 2;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        machine.append_route(devices[i], devices[(i + half) % devices.size()], routes);
    }
    const std::size_t last = devices.size() - 1;
    const std::size_t stride = 1 + last * routes.size() / kMostSteps;
    std::vector<std::pair<std::size_t, std::int64_t>> shifts;
    for (std::size_t shift = 1; shift <= last; shift += stride) {
        shifts.emplace_back(shift, std::min(stride, last + 1 - shift));
    }
    return shifts;
}

void add_pairs(FlowCounter& counter, const Machine& machine, std::span<const int> devices) {
    for (const auto& [shift, times] : shifts_of(machine, devices)) {
        add_shift(counter, devices, shift, times);
    }
}

/// Takes the larger latency and the larger flows / bandwidth.
void raise_to(Round& worst, const Round& round) {
    worst.latency = std::max(worst.latency, round.latency);
    if (static_cast<Int128>(round.flows) * worst.bandwidth >
        static_cast<Int128>(worst.flows) * round.bandwidth) {
        worst.flows = round.flows;
        worst.bandwidth = round.bandwidth;
    }
}

std::vector<int> column(const std::vector<std::vector<int>>& nodes, std::size_t position) {
    std::vector<int> devices;
    for (const auto& members : nodes) {
        if (position < members.size()) devices.push_back(members[position]);
    }
    return devices;
}

bool reduced_by_a_switch(const Machine& machine, std::span<const int> devices) {
    const auto& first = machine.reducing_switches_of(devices.front());
    return std::ranges::any_of(first, [&](int reducing) {
        return std::ranges::all_of(devices, [&](int device) {
            return std::ranges::binary_search(machine.reducing_switches_of(device), reducing);
        });
    });
}

std::int64_t least_direct_bandwidth(const Machine& machine, std::span<const int> devices) {
    std::map<int, double> sums;
    for (const int device : devices) sums[device] = 0;
    for (const Link& link : machine.links()) {
        const auto from = sums.find(link.from);
        const auto to = sums.find(link.to);
        if (from == sums.end() || to == sums.end()) continue;
        if (machine.device(link.from).node != machine.device(link.to).node) continue;
        const double reached = static_cast<double>(link.bandwidth) * link.efficiency;
        from->second += link.mode == LinkMode::shared ? reached / 2 : reached;
        if (link.mode != LinkMode::directed) {
            to->second += link.mode == LinkMode::shared ? reached / 2 : reached;
        }
    }
    const auto least =
        std::ranges::min_element(sums, {}, [](const auto& each) { return each.second; });
    return static_cast<std::int64_t>(std::min(least->second, 9e18));
}

std::uint64_t hash_of(std::span<const int> devices) {
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (const int device : devices) {
        hash = (hash ^ static_cast<std::uint64_t>(device)) * 0xff51afd7ed558ccdU;
        hash ^= hash >> 32U;
    }
    return hash;
}

/// Where devices of one node are on an axis of its torus.
class AxisPlaces {
public:
    AxisPlaces(std::span<const int> devices, int stride, int extent)
        : stride_(stride), extent_(extent), has_(static_cast<std::size_t>(extent), false) {
        for (const int device : devices) has_[static_cast<std::size_t>(at(device))] = true;
    }
    [[nodiscard]] int at(int device) const { return device / stride_ % extent_; }
    [[nodiscard]] int count() const { return static_cast<int>(std::ranges::count(has_, true)); }
    /// Without a gap.
    [[nodiscard]] bool is_run() const {
        const auto first = std::ranges::find(has_, true);
        return std::find(first, has_.end(), false) - first == count();
    }
    [[nodiscard]] bool is_whole() const { return count() == extent_; }
    [[nodiscard]] int stride() const { return stride_; }
    [[nodiscard]] int extent() const { return extent_; }
    [[nodiscard]] bool has(int place) const { return has_[static_cast<std::size_t>(place)]; }

private:
    int stride_;
    int extent_;
    std::vector<bool> has_;
};

/// Adds its channels. nullopt: neighbours have no link of their own.
std::optional<TorusAxis> axis_of(const Machine& machine, std::span<const int> devices,
                                 const AxisPlaces& places, std::vector<std::int32_t>& channels) {
    TorusAxis axis{.extent = places.count(), .closed = places.is_whole() && places.extent() > 2};
    std::vector<std::int32_t> route;
    const auto link = [&](int from, int to) -> std::optional<std::int32_t> {
        route.clear();
        machine.append_route(from, to, route);
        return route.size() == 1 ? std::optional(route[0]) : std::nullopt;
    };
    const auto take = [&](std::int32_t channel) {
        const Channel& of = machine.channels()[static_cast<std::size_t>(channel)];
        axis.bandwidth =
            axis.bandwidth == 0 ? of.bandwidth : std::min(axis.bandwidth, of.bandwidth);
        axis.latency = std::max(axis.latency, of.latency);
        channels.push_back(channel);
    };
    for (const int device : devices) {
        const int at = places.at(device);
        const bool last = at + 1 == places.extent();
        if (!last && !places.has(at + 1)) continue;
        const int next = last ? device - at * places.stride() : device + places.stride();
        if (last && !axis.closed) continue;
        const auto there = link(device, next);
        const auto back = link(next, device);
        if (there && back) {
            take(*there);
            take(*back);
        } else if (last) {
            axis.closed = false;
        } else {
            return std::nullopt;
        }
    }
    return axis;
}

/// Of a group, with the channels along its axes; no axes: it is no box of a torus.
struct TorusBox {
    std::vector<TorusAxis> axes;
    std::vector<std::int32_t> channels;
};

TorusBox torus_box(const Machine& machine, std::span<const int> devices) {
    const std::vector<int>& extents = machine.collectives().torus;
    const int node = machine.device(devices.front()).node;
    const auto is_here = [&](int device) { return machine.device(device).node == node; };
    if (extents.empty() || !std::ranges::all_of(devices, is_here)) return {};
    TorusBox found;
    std::size_t box = 1;
    int stride = 1;
    for (std::size_t a = extents.size(); a-- > 0; stride *= extents[a]) {
        const AxisPlaces places(devices, stride, extents[a]);
        box *= static_cast<std::size_t>(places.count());
        if (!places.is_run()) return {};
        if (places.count() == 1) continue;
        const auto axis = axis_of(machine, devices, places, found.channels);
        if (!axis) return {};
        found.axes.push_back(*axis);
    }
    return box == devices.size() ? found : TorusBox{};
}

}  // namespace

GroupLinks::GroupLinks(const Machine& machine, std::span<const int> devices)
    : ranks(static_cast<int>(devices.size())),
      levels(static_cast<int>(std::bit_width(devices.size() - 1))),
      switch_reduces(reduced_by_a_switch(machine, devices)),
      devices_(devices.begin(), devices.end()) {
    std::map<int, std::vector<int>> by_node;
    for (const int device : devices) by_node[machine.device(device).node].push_back(device);
    for (auto& [node, members] : by_node) node_members_.push_back(std::move(members));
    nodes = static_cast<int>(node_members_.size());
    const auto [fewest, most] = std::ranges::minmax(node_members_, {}, &std::vector<int>::size);
    fewest_per_node = static_cast<int>(fewest.size());
    most_per_node = static_cast<int>(most.size());
    ranks_per_node = fewest_per_node == most_per_node ? most_per_node : 0;
    node_switches_reduce = std::ranges::all_of(
        node_members_, [&](const auto& members) { return reduced_by_a_switch(machine, members); });

    torus = torus_box(machine, devices_).axes;
    FlowCounter counter(machine);
    const auto flow = [&](int from, int to) {
        counter.add(devices_[static_cast<std::size_t>(from)],
                    devices_[static_cast<std::size_t>(to)]);
    };
    add_ring(counter, devices_);
    ring = counter.finish();
    for (int i = 1; i < ranks; ++i) flow(i, 0);
    to_root = counter.finish();
    for (int i = 1; i < ranks; ++i) flow(0, i);
    from_root = counter.finish();
    for (const auto& members : node_members_) add_ring(counter, members);
    node_ring = counter.finish();
    for (int j = 0; j < most_per_node; ++j) {
        add_ring(counter, column(node_members_, static_cast<std::size_t>(j)));
    }
    column_ring = counter.finish();
    const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
    for (int i = power; i < ranks; ++i) {
        flow(i, i - power);
        flow(i - power, i);
    }
    fold = counter.finish();
    for (int k = 0; k < levels; ++k) {
        const auto level = static_cast<std::size_t>(k);
        const int step = 1 << k;
        for (int i = 0; i + step < ranks; i += 2 * step) flow(i + step, i);
        up[level] = counter.finish();
        for (int i = 0; i + step < ranks; i += 2 * step) flow(i, i + step);
        down[level] = counter.finish();
        for (int i = 0; i < power && step < power; ++i) flow(i, i ^ step);
        exchange[level] = counter.finish();
        for (int i = 0; i < ranks; ++i) flow(i, (i + step) % ranks);
        rotation[level] = counter.finish();
    }
}

std::int64_t GroupLinks::direct_bandwidth(const Machine& machine) const {
    return direct_bandwidth_.get([&] { return least_direct_bandwidth(machine, devices_); });
}

Round GroupLinks::all_pairs(const Machine& machine) const {
    return all_pairs_.get([&] {
        FlowCounter counter(machine);
        add_pairs(counter, machine, devices_);
        return counter.finish();
    });
}

Round GroupLinks::node_pairs(const Machine& machine) const {
    return node_pairs_.get([&] {
        FlowCounter counter(machine);
        for (const auto& members : node_members_) add_pairs(counter, machine, members);
        return counter.finish();
    });
}

Round GroupLinks::column_pairs(const Machine& machine) const {
    return column_pairs_.get([&] {
        FlowCounter counter(machine);
        for (int j = 0; j < ranks_per_node; ++j) {
            add_pairs(counter, machine, column(node_members_, static_cast<std::size_t>(j)));
        }
        return counter.finish();
    });
}

Round GroupLinks::worst_shift(const Machine& machine) const {
    return worst_shift_.get([&] {
        FlowCounter counter(machine);
        Round worst;
        for (const auto& [shift, times] : shifts_of(machine, devices_)) {
            add_shift(counter, devices_, shift);
            raise_to(worst, counter.finish());
        }
        return worst;
    });
}

std::vector<std::int32_t> channels_of(const Machine& machine, std::span<const int> devices) {
    std::vector<std::int32_t> channels = torus_box(machine, devices).channels;
    if (!channels.empty() || devices.size() < 2) return channels;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        machine.append_route(devices[i], devices[(i + 1) % devices.size()], channels);
    }
    return channels;
}

std::shared_ptr<const GroupLinks> GroupLinksCache::find(const Machine& machine,
                                                        std::span<const int> devices) {
    assert(!devices.empty());
    const std::uint64_t hash = hash_of(devices);
    const auto known = [&]() -> std::shared_ptr<const GroupLinks> {
        const auto [first, last] = entries_.equal_range(hash);
        for (auto entry = first; entry != last; ++entry) {
            if (std::ranges::equal(entry->second.devices, devices)) return entry->second.links;
        }
        return nullptr;
    };
    {
        const std::shared_lock lock(mutex_);
        if (auto links = known()) return links;
    }
    // Outside the lock: two threads may count the same group, and both get the same figures.
    auto links = std::make_shared<const GroupLinks>(machine, devices);
    const std::unique_lock lock(mutex_);
    if (auto other = known()) return other;
    if (entries_.size() >= kMostGroups) entries_.clear();
    entries_.emplace(hash, Entry{{devices.begin(), devices.end()}, links});
    return links;
}

}  // namespace partita::cost
