// SPDX-License-Identifier: Apache-2.0
#include "api/constraint_globs.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace partita::api {
namespace {

template <class Value>
void sort_without_repeats(std::vector<Value>& values) {
    std::ranges::sort(values);
    const auto repeats = std::ranges::unique(values);
    values.erase(repeats.begin(), repeats.end());
}

}  // namespace

std::optional<graph::OpId> restrict_devices(plan::Constraints& constraints,
                                            const graph::OpGraph& graph,
                                            const std::vector<graph::OpId>& ops,
                                            std::vector<int> devices) {
    sort_without_repeats(devices);
    constraints.allowed.resize(graph.op_count());
    for (const graph::OpId op : ops) {
        std::vector<int>& allowed = constraints.allowed[op.index()];
        if (allowed.empty()) {
            allowed = devices;
            continue;
        }
        std::vector<int> both;
        std::ranges::set_intersection(allowed, devices, std::back_inserter(both));
        if (both.empty()) return op;
        allowed = std::move(both);
    }
    return std::nullopt;
}

void keep_together(plan::Constraints& constraints, std::vector<graph::OpId> ops) {
    sort_without_repeats(ops);
    if (ops.size() > 1) constraints.together.push_back(std::move(ops));
}

}  // namespace partita::api
