// SPDX-License-Identifier: Apache-2.0
#include "search/core/kept_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/problem/op_costs.h"

namespace partita::search {

using graph::OpId;
using plan::DeviceSet;
using plan::OpConfig;

namespace {

/// Into how many the tensor is cut, replicas being none.
std::int64_t parts_of(const OpConfig& config) {
    std::int64_t parts = 1;
    for (const plan::Axis& axis : config.axes) {
        if (!axis.is_replica()) parts *= axis.degree;
    }
    return parts;
}

Bytes share_of(Bytes whole, const OpConfig& config) {
    return Bytes(whole.raw() / parts_of(config));
}

/// The least that is kept on a set of devices, on average.
class Sums {
public:
    void add(const DeviceSet& devices, Bytes share) {
        const auto known = std::ranges::find(sums_, devices, &std::pair<DeviceSet, Bytes>::first);
        if (known != sums_.end()) {
            known->second += share;
        } else {
            sums_.emplace_back(devices, share);
        }
    }
    [[nodiscard]] const std::vector<std::pair<DeviceSet, Bytes>>& all() const { return sums_; }

private:
    std::vector<std::pair<DeviceSet, Bytes>> sums_;  ///< few: a pipeline's stages
};

Bytes largest_memory(const plan::Problem& problem, const DeviceSet& devices) {
    Bytes largest;
    for (int i = 0; i < devices.size(); ++i) {
        largest = std::max(largest, problem.constraints().memory_capacity(devices[i]));
    }
    return largest;
}

}  // namespace

Bytes kept_beyond_memory(const plan::Problem& problem, const plan::Strategy& strategy) {
    Sums sums;
    const graph::OpGraph& graph = problem.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        const graph::Op& source = graph.op(op);
        if (source.kind != graph::OpKind::parameter || source.given) continue;
        const graph::Tensor& parameter = graph.tensor(source.outputs[0]);
        const OpConfig& config = strategy.config(op);
        sums.add(config.devices, share_of(parameter.bytes(), config));
        if (!problem.facts().has_gradient(source.outputs[0])) continue;
        const OpConfig& update = strategy.update(op).update;
        const OpConfig& keeper = update.devices.empty() ? config : update;
        sums.add(keeper.devices,
                 share_of(plan::optimizer_state_bytes(parameter, parameter.elements(),
                                                      problem.policy().optimizer),
                          keeper));
    }
    Bytes beyond;
    for (const auto& [devices, kept] : sums.all()) {
        const Bytes memory = largest_memory(problem, devices);
        if (kept > memory) beyond = std::max(beyond, kept - memory);
    }
    return beyond;
}

}  // namespace partita::search
