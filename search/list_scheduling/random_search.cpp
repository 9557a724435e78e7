// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/random_search.h"

#include <algorithm>
#include <vector>

#include "search/core/engine.h"
#include "search/list_scheduling/device_loads.h"
#include "search/list_scheduling/memory_repair.h"

namespace partita::search {

namespace {

constexpr int kBatch = 16;

Placement draw(const GroupGraph& graph, Random& random) {
    Placement placement(graph.size(), -1);
    DeviceLoads loads(graph);
    std::vector<int> open;
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const std::vector<int>& allowed = graph.devices(g);
        // Most draws have room at once; only the others look at all devices.
        int device = allowed[static_cast<std::size_t>(random.below(allowed.size()))];
        if (!loads.fits(g, device)) {
            open.clear();
            for (const int d : allowed) {
                if (loads.fits(g, d)) open.push_back(d);
            }
            device = open.empty() ? loads.roomiest(g)
                                  : open[static_cast<std::size_t>(random.below(open.size()))];
        }
        placement[g] = device;
        loads.add(g, device);
    }
    return placement;
}

}  // namespace

Status RandomSearch::step(Engine& engine) {
    const GroupGraph& graph = engine.groups();
    std::vector<Placement> placements;
    std::vector<plan::Strategy> strategies;
    for (int i = 0; i < kBatch; ++i) {
        placements.push_back(draw(graph, engine.random()));
        strategies.push_back(graph.strategy(placements.back()));
    }
    const auto evaluations = engine.evaluate(strategies);
    const bool first = samples_ == 0;
    samples_ += kBatch;
    const bool none_fits =
        std::none_of(evaluations.begin(), evaluations.end(),
                     [](const plan::Evaluation& evaluation) { return evaluation.feasible(); });
    if (first && none_fits && !engine.exhausted()) {
        evaluate_and_repair(engine, std::move(placements[0]));
    }
    // Repeated samples are not counted as evaluations: on one device they would never end.
    const std::int64_t wanted = engine.options().evaluations.value_or(0) + kRandomSamples;
    const bool budgeted = engine.options().evaluations.has_value();
    return samples_ >= (budgeted ? wanted : kRandomSamples) ? Status::found : Status::in_progress;
}

}  // namespace partita::search
