// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/expert.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "search/core/engine.h"
#include "search/core/kept_state.h"
#include "search/core/recompute_fit.h"
#include "search/hybrid_parallel/layer_cut.h"
#include "search/list_scheduling/device_loads.h"
#include "search/list_scheduling/memory_repair.h"

namespace partita::search {

Placement place_expert(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    std::vector<Slot> slots;
    for (int d = 0; d < graph.device_count(); ++d) {
        slots.push_back({.device = d, .memory = graph.problem().constraints().memory_capacity(d)});
    }
    const std::vector<int> owner = cut_layers(graph, slots);
    DeviceLoads loads(graph);
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const std::vector<int>& allowed = graph.devices(g);
        int device = owner[g];
        const bool usable = device >= 0 && loads.fits(g, device) &&
                            std::binary_search(allowed.begin(), allowed.end(), device);
        if (!usable) device = loads.least_loaded(g);
        placement[g] = device >= 0 ? device : loads.roomiest(g);
        loads.add(g, placement[g]);
    }
    return placement;
}

void Expert::look_at_next_grid(const Engine& engine) {
    plan::Strategy strategy = grids_->strategy(order_[next_++]);
    if (kept_beyond_memory(engine.problem(), strategy) > Bytes{0}) return;
    ahead_.push_back(std::move(strategy));
}

Status Expert::step(Engine& engine) {
    if (!std::exchange(placed_, true)) {
        evaluate_and_repair(engine, place_expert(engine.groups()));
        return Status::in_progress;
    }
    if (!grids_) {
        grids_.emplace(engine.groups());
        order_ = grids_->by_estimate();
    }
    const int may_fit = fitting_ + static_cast<int>(ahead_.size());
    if (next_ < order_.size() && may_fit < kMostGrids && ahead_.size() < engine.foresight()) {
        look_at_next_grid(engine);
        return Status::in_progress;
    }
    if (!ahead_.empty()) {
        std::vector<const plan::Strategy*> next;
        for (const plan::Strategy& strategy : ahead_) next.push_back(&strategy);
        engine.foresee(next);
        plan::Strategy strategy = std::move(ahead_.front());
        ahead_.pop_front();
        const auto fitted = evaluate_and_recompute(engine, std::move(strategy));
        if (!fitted) return Status::found;
        if (fitted->evaluation.feasible()) ++fitting_;
        return Status::in_progress;
    }
    if (!pipelines_) pipelines_.emplace(engine.groups(), *grids_);
    return pipelines_->step(engine);
}

}  // namespace partita::search
