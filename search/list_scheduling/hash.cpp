// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/hash.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "search/list_scheduling/device_loads.h"
#include "search/support/random.h"

namespace partita::search {

namespace {

/// FNV-1a, then spread over all bits.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return mix(hash);
}

/// Cumulative capacities of a set of devices: position i is drawn with probability capacity[i] /
/// sum.
class WeightedChoice {
public:
    WeightedChoice(const plan::Problem& problem, const std::vector<int>& devices) {
        Int128 sum = 0;
        for (const int d : devices) {
            sum += problem.constraints().memory_capacity(d).raw();
            cumulative_.push_back(sum);
        }
    }

    [[nodiscard]] std::size_t at(std::uint64_t hash) const {
        // 32 bits of the hash: the product of 64 of them and a sum of capacities needs more than
        // 128.
        const Int128 point = cumulative_.back() * static_cast<Int128>(hash >> 32) >> 32;
        const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), point);
        const auto position = static_cast<std::size_t>(found - cumulative_.begin());
        return std::min(position, cumulative_.size() - 1);  // all capacities 0
    }

private:
    std::vector<Int128> cumulative_;
};

}  // namespace

Placement place_hash(const GroupGraph& graph) {
    std::vector<WeightedChoice> choices;
    for (const auto& devices : graph.groups().device_sets) {
        choices.emplace_back(graph.problem(), devices);
    }
    Placement placement(graph.size(), -1);
    DeviceLoads loads(graph);
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const graph::OpId first = graph.groups().members[g][0];
        const std::vector<int>& devices = graph.devices(g);
        const auto& choice = choices[static_cast<std::size_t>(graph.groups().allowed[g])];
        const std::size_t start = choice.at(hash_of(graph.problem().graph().op(first).name));
        placement[g] = loads.roomiest(g);
        for (std::size_t i = 0; i < devices.size(); ++i) {
            const int device = devices[(start + i) % devices.size()];
            if (!loads.fits(g, device)) continue;
            placement[g] = device;
            break;
        }
        loads.add(g, placement[g]);
    }
    return placement;
}

}  // namespace partita::search
