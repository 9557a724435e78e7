// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/traffic.h"

#include <span>

namespace partita::search {

Traffic::Traffic(const GroupGraph& graph)
    : graph_(graph), bytes_(static_cast<std::size_t>(graph.device_count()), 0.0) {}

void Traffic::look_at(std::size_t group, const Placement& placement) {
    for (const int d : touched_) bytes_[static_cast<std::size_t>(d)] = 0;
    touched_.clear();
    placed_ = 0;
    all_ = 0;
    const auto add = [&](std::span<const GroupEdge> edges) {
        for (const GroupEdge& edge : edges) {
            const auto bytes = static_cast<double>(edge.bytes.raw());
            all_ += bytes;
            const int device = placement[static_cast<std::size_t>(edge.group)];
            if (device < 0) continue;
            placed_ += bytes;
            bytes_[static_cast<std::size_t>(device)] += bytes;
            touched_.push_back(device);
        }
    };
    add(graph_.incoming(group));
    add(graph_.outgoing(group));
}

double Traffic::on(int device) const {
    if (all_ == 0) return 1;
    return 1 + (placed_ - bytes_[static_cast<std::size_t>(device)]) / all_;
}

}  // namespace partita::search
