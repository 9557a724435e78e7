// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/machine.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cost/kernels/kernel_table.h"
#include "cost/machine/equal_nodes.h"
#include "cost/machine/folded_routes.h"
#include "cost/machine/group_links.h"
#include "cost/machine/routes.h"

namespace partita::cost {

namespace {

/// Long enough for any link, short enough that the sum over a route stays in range.
constexpr Time kMostLatency = milliseconds(1'000);
constexpr int kMostThreads = 2'048;  // a run starts them; no host has more

void require(bool holds, const std::string& field, std::string_view expected, const auto& got) {
    if (holds) return;
    throw InputError(fmt::format("{}: expected {}, got {}. Correct it.", field, expected, got));
}

void check_count(std::size_t count, int most, std::string_view what) {
    if (std::cmp_less_equal(count, most)) return;
    throw InputError(fmt::format("{}: {} of them. A machine has at most {}.", what, count, most));
}

void check_share(double share, const std::string& field) {
    require(share > 0 && share <= 1, field, "a share in (0, 1]", share);
}

void check_device(const Device& device, const std::string& field) {
    require(device.node >= 0, field + ".node", "a number >= 0", device.node);
    require(device.threads >= 1 && device.threads <= kMostThreads, field + ".threads",
            "a number from 1 to 2048", device.threads);
    require(device.memory > Bytes{0}, field + ".memory_bytes", "bytes > 0", device.memory.raw());
    require(device.reserved >= Bytes{0} && device.reserved < device.memory,
            field + ".reserved_bytes", "bytes >= 0 and less than memory_bytes",
            device.reserved.raw());
    require(device.memory_bandwidth > 0, field + ".memory_bandwidth", "bytes/s > 0",
            device.memory_bandwidth);
    require(device.launch_interval >= Time{0} && device.launch_interval <= kMostLatency,
            field + ".launch_interval_ps", "picoseconds from 0 to 1 s",
            device.launch_interval.raw());
    const auto lowest = std::ranges::min(device.matrix_flops);
    require(lowest >= 0, field + ".matrix_flops", "FLOP/s >= 0", lowest);
    require(device.tf32_flops >= 0, field + ".matrix_flops.tf32", "FLOP/s >= 0", device.tf32_flops);
    const std::int64_t float32 = device.matrix_flops_of(graph::DType::float32);
    require(float32 > 0, field + ".matrix_flops.float32", "FLOP/s > 0", float32);
    require(device.vector_flops > 0, field + ".vector_flops", "FLOP/s > 0", device.vector_flops);
    check_share(device.compute_efficiency, field + ".compute_efficiency");
    check_share(device.memory_efficiency, field + ".memory_efficiency");
    require(device.price_per_hour >= 0, field + ".price_per_hour", "a price >= 0",
            device.price_per_hour);
}

void check_link(const Link& link, int vertices, const std::string& field) {
    for (const auto& [end, name] : {std::pair{link.from, ".from"}, std::pair{link.to, ".to"}}) {
        require(end >= 0 && end < vertices, field + name, "a device or a switch", end);
    }
    if (link.from == link.to) {
        throw InputError(field + ".to: the link joins a device with itself. Remove it.");
    }
    require(link.bandwidth > 0, field + ".bandwidth", "bytes/s > 0", link.bandwidth);
    require(link.latency >= Time{0} && link.latency <= kMostLatency, field + ".latency_ps",
            "picoseconds from 0 to 1 s", link.latency.raw());
    check_share(link.efficiency, field + ".efficiency");
}

/// Every name must be new, and fit to stand in one line of a message.
class Names {
public:
    void add(const std::string& name, const std::string& field) {
        const bool printable = std::ranges::none_of(name, [](char c) { return c >= 0 && c < ' '; });
        require(!name.empty() && printable, field, "a name without control characters",
                json_quoted(name));
        if (!seen_.insert(name).second) {
            throw InputError(
                fmt::format("{}: the name {} occurs twice. Rename one.", field, json_quoted(name)));
        }
    }

private:
    std::unordered_set<std::string_view> seen_;
};

/// In whose place it stands; other types stand for themselves.
graph::DType other_of_16_bits(graph::DType dtype) {
    using graph::DType;
    if (dtype == DType::float16) return DType::bfloat16;
    return dtype == DType::bfloat16 ? DType::float16 : dtype;
}

constexpr auto kFloat8 = static_cast<std::size_t>(graph::DType::float8e4m3fn);

}  // namespace

bool Device::has_products(graph::ProductType type) const {
    switch (type) {
    case graph::ProductType::as_stored: return true;
    case graph::ProductType::tf32: return tf32_flops > 0;
    case graph::ProductType::float8: return matrix_flops[kFloat8] > 0;
    }
    std::abort();
}

std::int64_t Device::matrix_flops_of(graph::DType dtype, graph::ProductType type) const {
    if (type != graph::ProductType::as_stored && has_products(type)) {
        return type == graph::ProductType::tf32 ? tf32_flops : matrix_flops[kFloat8];
    }
    const auto named = [&](graph::DType stored) {
        return matrix_flops[static_cast<std::size_t>(stored)];
    };
    for (const graph::DType stored : {dtype, other_of_16_bits(dtype)}) {
        if (named(stored) > 0) return named(stored);
    }
    return named(graph::DType::float32);
}

bool Device::names_rate_of(graph::DType dtype) const {
    return matrix_flops[static_cast<std::size_t>(dtype)] > 0 ||
           matrix_flops[static_cast<std::size_t>(other_of_16_bits(dtype))] > 0;
}

Machine::Machine(std::string name, std::vector<Device> devices, std::vector<std::string> switches,
                 std::vector<Link> links, MachineCollectives collectives)
    : name_(std::move(name)),
      devices_(std::move(devices)),
      switches_(std::move(switches)),
      links_(std::move(links)),
      collectives_(std::move(collectives)),
      groups_(std::make_shared<GroupLinksCache>()) {
    check();
    name_links();
    build_channels();
    find_reducing_switches();
    if (const auto pair = routes_->disconnected(device_count())) {
        throw InputError(fmt::format("links: no way from {} to {}. Add a link.",
                                     json_quoted(vertex_name(pair->first)),
                                     json_quoted(vertex_name(pair->second))));
    }
}

const std::string& Machine::vertex_name(int vertex) const {
    const auto i = static_cast<std::size_t>(vertex);
    return i < devices_.size() ? devices_[i].name : switches_[i - devices_.size()];
}

void Machine::check() const {
    Names().add(name_, "name");
    if (devices_.empty()) throw InputError("devices: there are none. Add at least one.");
    check_count(devices_.size(), kMostDevices, "devices");
    check_count(switches_.size(), kMostSwitches, "switches");
    check_count(links_.size(), kMostLinks, "links");
    Names vertex_names;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
        const std::string field = fmt::format("devices[{}]", i);
        vertex_names.add(devices_[i].name, field + ".name");
        check_device(devices_[i], field);
    }
    for (std::size_t i = 0; i < switches_.size(); ++i) {
        vertex_names.add(switches_[i], fmt::format("switches[{}].name", i));
    }
    const int vertices = static_cast<int>(devices_.size() + switches_.size());
    Names link_names;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const std::string field = fmt::format("links[{}]", i);
        check_link(links_[i], vertices, field);
        if (!links_[i].name.empty()) link_names.add(links_[i].name, field + ".name");
    }
    for (const int reducing : collectives_.reducing_switches) {
        require(reducing >= 0 && std::cmp_less(reducing, switches_.size()), "switches",
                "the position of a switch that reduces", reducing);
    }
    check_torus();
}

void Machine::check_torus() const {
    if (collectives_.torus.empty()) return;
    check_count(collectives_.torus.size(), kMostTorusAxes, "torus");
    std::int64_t in_node = 1;
    for (const int extent : collectives_.torus) {
        require(extent >= 1 && extent <= kMostDevices, "torus", "an extent from 1 to 65536",
                extent);
        in_node = std::min<std::int64_t>(in_node * extent, kMostDevices + 1);
    }
    const auto size = static_cast<std::size_t>(in_node);
    bool fits = devices_.size() % size == 0;
    for (std::size_t i = 1; fits && i < devices_.size(); ++i) {
        const bool same_node = devices_[i].node == devices_[i - 1].node;
        fits = same_node == (i % size != 0);
    }
    if (fits) return;
    throw InputError(
        fmt::format("torus: expected extents whose product is the number of devices of every node, "
                    "which follow one another; got {}. Correct them.",
                    fmt::join(collectives_.torus, " x ")));
}

void Machine::find_reducing_switches() {
    reducing_switches_of_.resize(devices_.size());
    const auto add = [this](int device, int vertex) {
        const int position = vertex - device_count();
        if (device >= device_count() || position < 0) return;
        if (!std::ranges::binary_search(collectives_.reducing_switches, position)) return;
        reducing_switches_of_[static_cast<size_t>(device)].push_back(position);
    };
    for (const Link& link : links_) {
        add(link.from, link.to);
        add(link.to, link.from);
    }
    for (std::vector<int>& of_device : reducing_switches_of_) std::ranges::sort(of_device);
}

void Machine::name_links() {
    std::unordered_set<std::string> taken;
    std::map<std::string, int> copies;
    for (const Link& link : links_) taken.insert(link.name);
    for (Link& link : links_) {
        if (!link.name.empty()) continue;
        const std::string joined =
            fmt::format("{}-{}", vertex_name(link.from), vertex_name(link.to));
        link.name = joined;
        while (!taken.insert(link.name).second) {
            link.name = fmt::format("{}#{}", joined, 2 + copies[joined]++);
        }
    }
}

void Machine::build_channels() {
    std::vector<Arc> arcs;
    std::unordered_set<std::string> taken;
    const auto add_channel = [&](int link_id, int from, int to, std::string_view arrow) {
        const Link& link = links_[static_cast<std::size_t>(link_id)];
        std::string channel_name = fmt::format("{}{}{}", vertex_name(from), arrow, vertex_name(to));
        if (!taken.insert(channel_name).second) {
            // A second link between the two: link names are unique, so this one is.
            channel_name = fmt::format("{} ({})", channel_name, link.name);
            taken.insert(channel_name);
        }
        const double reached = static_cast<double>(link.bandwidth) * link.efficiency;
        // An efficiency of 1 keeps all digits of the integer.
        const std::int64_t bandwidth =
            link.efficiency == 1.0 ? link.bandwidth
                                   : std::max<std::int64_t>(1, static_cast<std::int64_t>(reached));
        channels_.push_back({.name = std::move(channel_name),
                             .link = link_id,
                             .bandwidth = bandwidth,
                             .latency = link.latency});
        arcs.push_back({from, to, static_cast<std::int32_t>(channels_.size()) - 1});
    };
    for (int id = 0; std::cmp_less(id, links_.size()); ++id) {
        const Link& link = links_[static_cast<std::size_t>(id)];
        add_channel(id, link.from, link.to, link.mode == LinkMode::shared ? "=" : ">");
        switch (link.mode) {
        case LinkMode::duplex: add_channel(id, link.to, link.from, ">"); break;
        case LinkMode::shared: arcs.push_back({link.to, link.from, arcs.back().channel}); break;
        case LinkMode::directed: break;
        }
    }
    const int vertices = static_cast<int>(devices_.size() + switches_.size());
    routes_ = std::make_shared<const Routes>(vertices, std::move(arcs), channels_);
    std::vector<NodeRun> runs = runs_of_nodes(devices_, switches_, links_);
    if (std::ranges::any_of(runs, &FoldedRoutes::folds)) {
        folded_ = std::make_shared<const FoldedRoutes>(vertices, device_count(), routes_->arcs(),
                                                       channels_, std::move(runs));
    }
}

template <class Visit>
void Machine::walk(int from, int to, Visit visit) const {
    if (folded_ && folded_->walk(from, to, visit)) return;
    routes_->walk(from, to, [&](const Arc& arc) { visit(arc.channel); });
}

Route Machine::route(int from, int to) const {
    Route route;
    route.bandwidth = std::numeric_limits<std::int64_t>::max();
    walk(from, to, [&](std::int32_t id) {
        const Channel& channel = channels_[static_cast<std::size_t>(id)];
        route.channels.push_back(id);
        route.latency += channel.latency;
        route.bandwidth = std::min(route.bandwidth, channel.bandwidth);
    });
    return route;
}

void Machine::append_route(int from, int to, std::vector<std::int32_t>& channels) const {
    walk(from, to, [&](std::int32_t id) { channels.push_back(id); });
}

std::shared_ptr<const GroupLinks> Machine::group_links(std::span<const int> devices) const {
    return groups_->find(*this, devices);
}

Time Machine::copy_time(int from, int to, Bytes size) const {
    Time latency;
    std::int64_t bandwidth = std::numeric_limits<std::int64_t>::max();
    walk(from, to, [&](std::int32_t id) {
        const Channel& channel = channels_[static_cast<std::size_t>(id)];
        latency += channel.latency;
        bandwidth = std::min(bandwidth, channel.bandwidth);
    });
    return latency + transfer_time(size, bandwidth);
}

Bytes default_reserved(DeviceKind kind, Bytes memory) {
    return kind == DeviceKind::gpu ? Bytes(memory.raw() / 20) : Bytes{0};
}

std::string digest(const Machine& machine) {
    Sha256 hash;
    // Efficiencies are fed as the shortest text that reads back as the same double.
    const auto add_share = [&](double share) { hash.add(json_number(share)); };
    hash.add("partita-machine 1").add(machine.name());
    hash.add(static_cast<std::int64_t>(machine.device_count()));
    for (const Device& device : machine.devices()) {
        hash.add(device.name).add(device.model).add(static_cast<std::int64_t>(device.kind));
        hash.add(std::int64_t{device.node}).add(device.memory.raw());
        hash.add(device.memory_bandwidth).add(device.launch_interval.raw());
        for (const std::int64_t flops : device.matrix_flops) hash.add(flops);
        if (device.tf32_flops != 0) hash.add("tf32").add(device.tf32_flops);
        hash.add(device.vector_flops);
        add_share(device.compute_efficiency);
        add_share(device.memory_efficiency);
        if (device.kernels) hash.add("kernels").add(device.kernels->digest());
        if (device.threads != 1) hash.add("threads").add(std::int64_t{device.threads});
        if (device.reserved != default_reserved(device.kind, device.memory)) {
            hash.add("reserved").add(device.reserved.raw());
        }
    }
    hash.add(static_cast<std::int64_t>(machine.switches().size()));
    for (const std::string& name : machine.switches()) hash.add(name);
    hash.add(static_cast<std::int64_t>(machine.links().size()));
    for (const Link& link : machine.links()) {
        hash.add(link.name).add(std::int64_t{link.from}).add(std::int64_t{link.to});
        hash.add(link.bandwidth).add(link.latency.raw());
        hash.add(static_cast<std::int64_t>(link.mode));
        add_share(link.efficiency);
    }
    const MachineCollectives& collectives = machine.collectives();
    if (!collectives.model.empty() || !collectives.reducing_switches.empty()) {
        hash.add("collectives").add(collectives.model);
        for (const int reducing : collectives.reducing_switches) hash.add(std::int64_t{reducing});
    }
    if (!collectives.torus.empty()) hash.add("torus");
    for (const int extent : collectives.torus) hash.add(std::int64_t{extent});
    return hash.finish();
}

}  // namespace partita::cost
