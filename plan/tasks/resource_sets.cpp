// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/resource_sets.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "cost/machine/group_links.h"

namespace partita::plan {

std::int32_t resource_count_of(const Problem& problem) {
    return 3 * problem.device_count() +
           static_cast<std::int32_t>(problem.machine().channels().size());
}

namespace {

bool is_cpu(const cost::Device& device) {
    return device.kind == cost::DeviceKind::cpu;
}

}  // namespace

ResourceSets::ResourceSets(const Problem& problem) : problem_(problem) {
    for (const int d : std::views::iota(0, problem.device_count())) {
        add({compute_row(d)}, std::array{d});
    }
}

std::int32_t ResourceSets::add(std::vector<std::int32_t> resources, std::span<const int> devices) {
    std::vector<std::int32_t> hosts;
    for (const int device : devices) {
        const bool launches = problem_.policy().host_time.any();
        if (launches && !is_cpu(problem_.machine().device(device))) hosts.push_back(device);
    }
    hosts_.add_row(hosts);
    std::sort(resources.begin(), resources.end());
    resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
    resource_sets_.add_row(resources);
    return static_cast<std::int32_t>(resource_sets_.rows()) - 1;
}

std::int32_t ResourceSets::of_copy(int from, int to) {
    const std::int64_t key = std::int64_t{from} * problem_.device_count() + to;
    Hash hash;
    hash.add(key);
    const std::int32_t known = copies_.find(hash.value(), [&](std::int32_t i) {
        return copy_keys_[static_cast<std::size_t>(i)] == key;
    });
    if (known >= 0) return copy_sets_[static_cast<std::size_t>(known)];
    std::vector<std::int32_t> resources{send_row(from), receive_row(to)};
    for (const std::int32_t channel : problem_.machine().route(from, to).channels) {
        resources.push_back(3 * problem_.device_count() + channel);
    }
    const cost::Device& sender = problem_.machine().device(from);
    const cost::Device& receiver = problem_.machine().device(to);
    if (is_cpu(sender) && is_cpu(receiver)) {  // a GPU at one end has an engine for it
        resources.push_back(compute_row(to));
        // Within a node the receiver reads the sender's memory.
        if (sender.node != receiver.node) resources.push_back(compute_row(from));
    }
    copies_.add(hash.value(), static_cast<std::int32_t>(copy_keys_.size()));
    copy_keys_.push_back(key);
    copy_sets_.push_back(add(std::move(resources), std::array{from, to}));
    return copy_sets_.back();
}

ResourceSets::Group ResourceSets::of_ranks(std::span<const int> devices) {
    Hash hash;
    for (const int device : devices) hash.add(device);
    const std::int32_t known = groups_.find(hash.value(), [&](std::int32_t row) {
        const auto ranks = ranks_[static_cast<std::size_t>(row)];
        return std::equal(ranks.begin(), ranks.end(), devices.begin(), devices.end());
    });
    if (known >= 0) return {known, group_sets_[static_cast<std::size_t>(known)]};
    const cost::Machine& machine = problem_.machine();
    std::vector<std::int32_t> resources;
    for (const int device : devices) {
        resources.push_back(send_row(device));
        resources.push_back(receive_row(device));
        if (is_cpu(machine.device(device))) resources.push_back(compute_row(device));
    }
    for (const std::int32_t channel : cost::channels_of(machine, devices))
        resources.push_back(3 * problem_.device_count() + channel);
    const auto row = static_cast<std::int32_t>(ranks_.rows());
    groups_.add(hash.value(), row);
    ranks_.add_row(devices);
    group_sets_.push_back(add(std::move(resources), devices));
    return {row, group_sets_.back()};
}

}  // namespace partita::plan
