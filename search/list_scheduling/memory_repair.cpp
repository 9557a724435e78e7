// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/memory_repair.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "search/core/recompute_fit.h"
#include "search/list_scheduling/device_loads.h"

namespace partita::search {

namespace {

/// What moving a group is taken to relieve: what it keeps, or what it produces if that is more (in
/// inference results alone may overfill a device).
Bytes weight_of(const GroupGraph& graph, std::size_t g) {
    return std::max(graph.bytes(g), graph.result_bytes(g));
}

/// Moves groups off overfull devices. False when nothing moved.
bool move_groups(const GroupGraph& graph, const plan::Evaluation& evaluation,
                 Placement& placement) {
    std::vector<Bytes> room;
    room.reserve(evaluation.devices.size());
    for (int d = 0; d < graph.device_count(); ++d) {
        room.push_back(graph.problem().constraints().memory_capacity(d) -
                       evaluation.devices[static_cast<std::size_t>(d)].memory);
    }
    const auto room_on = [&](int d) -> Bytes& { return room[static_cast<std::size_t>(d)]; };
    DeviceLoads loads(graph);
    std::vector<std::size_t> order;
    for (std::size_t g = 0; g < placement.size(); ++g) {
        loads.add(g, placement[g]);
        if (weight_of(graph, g) > Bytes{0} && room_on(placement[g]) < Bytes{0}) order.push_back(g);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return weight_of(graph, a) > weight_of(graph, b);
    });
    bool moved = false;
    for (const std::size_t g : order) {
        const int from = placement[g];
        if (room_on(from) >= Bytes{0}) continue;
        int to = -1;
        for (const int d : graph.devices(g)) {
            if (room_on(d) < weight_of(graph, g)) continue;
            if (to < 0 || loads.finish(g, d) < loads.finish(g, to)) to = d;
        }
        if (to < 0) continue;
        loads.remove(g, from);
        loads.add(g, to);
        room_on(from) += weight_of(graph, g);
        room_on(to) -= weight_of(graph, g);
        placement[g] = to;
        moved = true;
    }
    return moved;
}

bool repair(Engine& engine, Placement placement) {
    const GroupGraph& graph = engine.groups();
    for (int round = 0; round < kRepairRounds; ++round) {
        const auto fitted = evaluate_and_recompute(engine, graph.strategy(placement));
        if (!fitted) return false;
        if (fitted->evaluation.feasible()) return true;
        if (!move_groups(graph, fitted->evaluation, placement)) return false;
    }
    return false;
}

/// All groups in topological order, each device filled to the same share of its memory.
Placement deal_out(const GroupGraph& graph) {
    Int128 needed = 0;
    Int128 capacity = 0;
    for (std::size_t g = 0; g < graph.size(); ++g) needed += weight_of(graph, g).raw();
    for (int d = 0; d < graph.device_count(); ++d) {
        capacity += graph.problem().constraints().memory_capacity(d).raw();
    }
    Placement placement(graph.size(), -1);
    DeviceLoads loads(graph);
    int device = 0;
    Int128 dealt = 0;
    Int128 passed = graph.problem()
                        .constraints()
                        .memory_capacity(0)
                        .raw();  // capacity of devices 0 to `device`
    for (std::size_t g = 0; g < graph.size(); ++g) {
        // dealt / needed >= passed / capacity, in doubles: a share, not a sum that must be exact.
        while (device + 1 < graph.device_count() &&
               static_cast<double>(dealt) * static_cast<double>(capacity) >=
                   static_cast<double>(passed) * static_cast<double>(needed)) {
            passed += graph.problem().constraints().memory_capacity(++device).raw();
        }
        dealt += weight_of(graph, g).raw();
        const std::vector<int>& allowed = graph.devices(g);
        const bool usable = std::binary_search(allowed.begin(), allowed.end(), device);
        placement[g] = usable ? device : loads.roomiest(g);
        loads.add(g, placement[g]);
    }
    return placement;
}

}  // namespace

bool evaluate_and_repair(Engine& engine, Placement placement) {
    if (repair(engine, std::move(placement))) return true;
    if (engine.exhausted()) return false;
    return repair(engine, deal_out(engine.groups()));
}

}  // namespace partita::search
