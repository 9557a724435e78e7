// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/load_state.h"

#include <algorithm>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

LoadState::LoadState(const LoadGraph& graph, const std::vector<LoadDevice>& devices)
    : graph_(&graph),
      devices_(&devices),
      device_of_(graph.size, 0),
      counts_(graph.net_count() * devices.size(), 0),
      loads_(devices.size(), 0),
      bytes_(devices.size(), 0) {
    for (std::size_t net = 0; net < graph.net_count(); ++net) {
        sizes_.push_back(static_cast<std::int32_t>(graph.pins[net].size()));
    }
    assign(std::vector<std::int32_t>(graph.size, 0));
}

void LoadState::assign(std::span<const std::int32_t> device_of) {
    device_of_.assign(device_of.begin(), device_of.end());
    std::fill(loads_.begin(), loads_.end(), 0);
    std::fill(bytes_.begin(), bytes_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    for (std::size_t v = 0; v < graph_->size; ++v) {
        const auto d = static_cast<std::size_t>(device_of_[v]);
        loads_[d] += graph_->time(v, (*devices_)[d].kind);
        bytes_[d] += graph_->bytes[v];
    }
    for (std::size_t net = 0; net < graph_->net_count(); ++net) {
        std::int32_t* counts = counts_.data() + net * devices_->size();
        for (const std::int32_t v : graph_->pins[net])
            ++counts[device_of_[static_cast<std::size_t>(v)]];
        for (std::size_t d = 0; d < devices_->size(); ++d) {
            const bool pays =
                counts[d] > 0 && counts[d] < sizes_[net] && (*devices_)[d].communicates;
            if (pays) loads_[d] += graph_->costs[net];
        }
    }
}

LoadScore LoadState::score() const {
    LoadScore score;
    for (std::size_t d = 0; d < devices_->size(); ++d) {
        score.load = std::max(score.load, loads_[d]);
        score.overflow += std::max<std::int64_t>(0, bytes_[d] - capacity(d));
    }
    return score;
}

bool LoadState::allowed(std::size_t v, std::size_t device) const {
    return graph_->time(v, (*devices_)[device].kind) < kNever;
}

std::int64_t LoadState::leaving(std::size_t v) const {
    const auto from = static_cast<std::size_t>(device_of_[v]);
    const LoadDevice& device = (*devices_)[from];
    std::int64_t gain = -graph_->time(v, device.kind);
    if (!device.communicates) return gain;
    for (const std::int32_t net : graph_->nets[v]) {
        const auto n = static_cast<std::size_t>(net);
        const std::int32_t count = counts(net)[from];
        if (count == sizes_[n]) gain += graph_->costs[n];
        if (count == 1) gain -= graph_->costs[n];
    }
    return gain;
}

std::int64_t LoadState::joining(std::size_t v, std::size_t to) const {
    const LoadDevice& device = (*devices_)[to];
    std::int64_t gain = graph_->time(v, device.kind);
    if (!device.communicates) return gain;
    for (const std::int32_t net : graph_->nets[v]) {
        const auto n = static_cast<std::size_t>(net);
        const std::int32_t count = counts(net)[to];
        if (count == 0) gain += graph_->costs[n];
        if (count == sizes_[n] - 1) gain -= graph_->costs[n];
    }
    return gain;
}

void LoadState::move(std::size_t v, std::size_t to, std::int64_t leaving, std::int64_t joining) {
    const auto from = static_cast<std::size_t>(device_of_[v]);
    loads_[from] += leaving;
    loads_[to] += joining;
    bytes_[from] -= graph_->bytes[v];
    bytes_[to] += graph_->bytes[v];
    device_of_[v] = static_cast<std::int32_t>(to);
    for (const std::int32_t net : graph_->nets[v]) {
        std::int32_t* counts = counts_.data() + static_cast<std::size_t>(net) * devices_->size();
        --counts[from];
        ++counts[to];
    }
}

}  // namespace partita::search
