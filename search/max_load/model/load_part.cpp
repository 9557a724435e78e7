// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/load_part.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

constexpr std::int32_t kNowhere = -1;

/// Number in the part of each vertex of the whole problem; kNowhere: it stays.
std::vector<std::int32_t> number(LoadPart& part, std::span<const std::int32_t> device_of) {
    std::vector<std::int32_t> numbers(device_of.size(), kNowhere);
    for (std::size_t v = 0; v < device_of.size(); ++v) {
        const auto device = static_cast<std::size_t>(device_of[v]);
        if (!std::ranges::binary_search(part.devices, device)) continue;
        numbers[v] = static_cast<std::int32_t>(part.vertices.size());
        part.vertices.push_back(static_cast<std::int32_t>(v));
    }
    return numbers;
}

void set_devices(LoadPart& part, const LoadProblem& whole) {
    for (const std::size_t device : part.devices) {
        part.problem.devices.push_back(whole.devices[device]);
    }
    part.problem.devices.push_back({.kind = whole.graph.kinds,
                                    .capacity = std::numeric_limits<std::int64_t>::max(),
                                    .communicates = false});
}

void set_vertices(LoadPart& part, const LoadGraph& whole) {
    LoadGraph& graph = part.problem.graph;
    graph.size = part.vertices.size() + 1;
    graph.kinds = whole.kinds + 1;
    graph.times.assign(graph.size * graph.kinds, kNever);
    for (std::size_t i = 0; i < part.vertices.size(); ++i) {
        const auto v = static_cast<std::size_t>(part.vertices[i]);
        for (std::size_t k = 0; k < whole.kinds; ++k) {
            graph.times[i * graph.kinds + k] = whole.time(v, k);
        }
        graph.bytes.push_back(whole.bytes[v]);
    }
    graph.times.back() = 0;
    graph.bytes.push_back(0);
}

std::vector<LoadNet> nets_of(const LoadGraph& whole, std::span<const std::int32_t> numbers,
                             std::int32_t elsewhere) {
    std::vector<LoadNet> nets;
    for (std::size_t net = 0; net < whole.net_count(); ++net) {
        LoadNet own{.pins = {}, .cost = whole.costs[net]};
        for (const std::int32_t pin : whole.pins[net]) {
            const std::int32_t number = numbers[static_cast<std::size_t>(pin)];
            if (number != kNowhere) own.pins.push_back(number);
        }
        if (own.pins.empty()) continue;
        if (own.pins.size() < whole.pins[net].size()) own.pins.push_back(elsewhere);
        nets.push_back(std::move(own));
    }
    return nets;
}

}  // namespace

LoadPart make_load_part(const LoadProblem& whole, std::span<const std::int32_t> device_of,
                        std::span<const std::size_t> devices) {
    LoadPart part{.problem = {}, .vertices = {}, .devices = {devices.begin(), devices.end()}};
    const std::vector<std::int32_t> numbers = number(part, device_of);
    set_devices(part, whole);
    set_vertices(part, whole.graph);
    const auto elsewhere = static_cast<std::int32_t>(part.vertices.size());
    set_nets(part.problem.graph, nets_of(whole.graph, numbers, elsewhere));
    return part;
}

}  // namespace partita::search
