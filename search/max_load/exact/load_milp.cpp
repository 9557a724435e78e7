// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/load_milp.h"

#include <algorithm>
#include <numeric>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

std::size_t LoadMilp::entries(const LoadProblem& problem) {
    const std::size_t pins = problem.graph.pins.items.size();
    return (3 * problem.graph.size + 4 * pins + 2 * problem.graph.net_count()) *
           problem.devices.size();
}

LoadMilp::LoadMilp(const LoadProblem& problem, std::int64_t limit)
    : problem_(problem), unit_(static_cast<double>(limit)) {
    add_vertices();
    break_symmetry();
    add_nets();
    add_memory();
    add_loads();
}

void LoadMilp::add_vertices() {
    const LoadGraph& graph = problem_.graph;
    for (std::size_t v = 0; v < graph.size; ++v) {
        for (const LoadDevice& device : problem_.devices) {
            const bool allowed = graph.time(v, device.kind) < kNever;
            program_.add_column(0, allowed ? 1 : 0, /*whole=*/true);
        }
    }
    for (std::size_t v = 0; v < graph.size; ++v) {
        for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
            program_.add_entry(column(v, d), 1);
        }
        program_.end_row(1, 1);
    }
}

void LoadMilp::break_symmetry() {
    const LoadGraph& graph = problem_.graph;
    for (std::size_t k = 0; k < graph.kinds; ++k) {
        std::vector<std::size_t> devices;
        for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
            if (problem_.devices[d].kind == k) devices.push_back(d);
        }
        std::vector<std::size_t> order(graph.size);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto weight = [&](std::size_t v) {
            const std::int64_t time = graph.time(v, k);
            return time < kNever ? time : 0;
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
        for (std::size_t i = 0; i < order.size(); ++i) {
            for (std::size_t later = i + 1; later < devices.size(); ++later) {
                const std::int32_t x = column(order[i], devices[later]);
                program_.upper[static_cast<std::size_t>(x)] = 0;
            }
        }
    }
}

void LoadMilp::add_nets() {
    const LoadGraph& graph = problem_.graph;
    const std::size_t devices = problem_.devices.size();
    some_.assign(graph.net_count() * devices, -1);
    all_.assign(graph.net_count() * devices, -1);
    for (std::size_t net = 0; net < graph.net_count(); ++net) {
        for (std::size_t d = 0; d < devices; ++d) {
            if (!problem_.devices[d].communicates) continue;
            const std::int32_t some = program_.add_column(0, 1, /*whole=*/false);
            some_[net * devices + d] = some;
            const bool of_two = graph.pins[net].size() == 2;
            const std::int32_t all = of_two ? -1 : program_.add_column(0, 1, /*whole=*/false);
            all_[net * devices + d] = all;
            for (const std::int32_t pin : graph.pins[net]) {
                const std::int32_t x = column(static_cast<std::size_t>(pin), d);
                program_.add_entry(some, 1);
                program_.add_entry(x, -1);
                program_.end_row(0, Milp::kInfinity);
                if (of_two) continue;
                program_.add_entry(x, 1);
                program_.add_entry(all, -1);
                program_.end_row(0, Milp::kInfinity);
            }
        }
    }
}

void LoadMilp::add_memory() {
    const LoadGraph& graph = problem_.graph;
    const double bytes =
        std::accumulate(graph.bytes.begin(), graph.bytes.end(), 0.0,
                        [](double sum, std::int64_t of) { return sum + static_cast<double>(of); });
    for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
        const auto capacity = static_cast<double>(problem_.devices[d].capacity);
        if (bytes <= capacity) continue;
        const double unit = std::max(capacity, 1.0);
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (graph.bytes[v] == 0) continue;
            program_.add_entry(column(v, d), static_cast<double>(graph.bytes[v]) / unit);
        }
        program_.end_row(-Milp::kInfinity, capacity / unit);
    }
}

void LoadMilp::add_loads() {
    const LoadGraph& graph = problem_.graph;
    const std::size_t devices = problem_.devices.size();
    const std::int32_t largest = program_.add_column(0, 1, /*whole=*/false, /*price=*/1);
    std::vector<double> own(graph.size);
    for (std::size_t d = 0; d < devices; ++d) {
        for (std::size_t v = 0; v < graph.size; ++v) {
            const std::int64_t time = graph.time(v, problem_.devices[d].kind);
            own[v] = time < kNever ? static_cast<double>(time) / unit_ : 0;
        }
        for (std::size_t net = 0; net < graph.net_count(); ++net) {
            if (!problem_.devices[d].communicates) continue;
            const double cost = static_cast<double>(graph.costs[net]) / unit_;
            const std::int32_t all = all_[net * devices + d];
            program_.add_entry(some_[net * devices + d], all < 0 ? 2 * cost : cost);
            if (all >= 0) {
                program_.add_entry(all, -cost);
                continue;
            }
            for (const std::int32_t pin : graph.pins[net]) {
                own[static_cast<std::size_t>(pin)] -= cost;
            }
        }
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (own[v] != 0) program_.add_entry(column(v, d), own[v]);
        }
        program_.add_entry(largest, -1);
        program_.end_row(-Milp::kInfinity, 0);
    }
}

std::vector<std::int32_t> LoadMilp::devices(std::span<const double> x) const {
    std::vector<std::int32_t> devices;
    for (std::size_t v = 0; v < problem_.graph.size; ++v) {
        const auto row = x.subspan(v * problem_.devices.size(), problem_.devices.size());
        devices.push_back(
            static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
    return devices;
}

}  // namespace partita::search
