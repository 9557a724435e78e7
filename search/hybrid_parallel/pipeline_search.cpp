// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/pipeline_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "search/configs/standard_configs.h"
#include "search/core/engine.h"
#include "search/core/kept_state.h"
#include "search/core/recompute_fit.h"
#include "search/hybrid_parallel/expert.h"

namespace partita::search {

using plan::Problem;
using plan::Strategy;

namespace {

std::vector<int> more_micro_batches(const Problem& problem) {
    std::vector<int> more;
    for (const int micro_batches : problem.batch().micro_batch_choices()) {
        if (micro_batches > problem.policy().micro_batches) more.push_back(micro_batches);
    }
    return more;
}

}  // namespace

PipelineSearch::PipelineSearch(const GroupGraph& graph, Grids& grids)
    : graph_(graph),
      more_(more_micro_batches(graph.problem())),
      kinds_(graph, more_),
      queue_(grids) {
    for (const int micro_batches : more_) {
        auto more = std::make_unique<Grids>(graph_, policy_with(graph_.problem(), micro_batches));
        std::vector<Grid> pipelines = more->all();
        std::erase_if(pipelines, [](const Grid& grid) { return grid.stages < 2; });
        queue_.add(std::move(more), pipelines);
    }
}

/// Grids do the same on equal devices.
std::optional<Strategy> PipelineSearch::next_layers() {
    const Problem& problem = graph_.problem();
    const bool grids = !problem.constraints().whole_ops() &&
                       static_cast<int>(equal_devices(problem).size()) == problem.device_count();
    if (grids || next_layers_ == more_.size()) return std::nullopt;
    if (is_too_fine(problem, 1, more_[next_layers_])) return std::nullopt;
    Strategy strategy = graph_.strategy(place_expert(graph_));
    strategy.policy = policy_with(problem, more_[next_layers_++]);
    accumulate_locally(problem, strategy);
    return strategy;
}

/// As many of the next grids as there may be turns for.
void PipelineSearch::look_ahead(const Engine& engine, double limit) {
    const int turns = std::min(kMostPipelines - tried_, kMostMisses - misses_);
    const std::size_t wanted = std::min(engine.foresight(), static_cast<std::size_t>(turns));
    while (ahead_.size() < wanted) {
        const auto best = queue_.pop(limit);
        if (!best) return;
        Strategy strategy = queue_.grids(*best).strategy(best->grid);
        if (kept_beyond_memory(engine.problem(), strategy) > Bytes{0}) continue;
        ahead_.push_back({best->estimate, std::move(strategy)});
    }
}

std::optional<Strategy> PipelineSearch::next_grid(Engine& engine) {
    if (tried_ == kMostPipelines || misses_ == kMostMisses) return std::nullopt;
    double limit = std::numeric_limits<double>::infinity();
    const plan::Evaluation* known = engine.best_evaluation();
    if (known != nullptr && known->feasible()) {
        limit = kHopeless * static_cast<double>(known->value.raw());
    }
    look_ahead(engine, limit);
    // The limit may have fallen since.
    if (ahead_.empty() || ahead_.front().estimate > limit) return std::nullopt;
    std::vector<const Strategy*> next;
    for (const Ahead& ahead : ahead_) next.push_back(&ahead.strategy);
    engine.foresee(next);
    Strategy strategy = std::move(ahead_.front().strategy);
    ahead_.pop_front();
    ++tried_;
    return strategy;
}

/// The best of all in the other order, if it is a pipeline with micro-batches.
std::optional<Strategy> PipelineSearch::next_order(const Engine& engine) {
    if (!graph_.problem().batch().free_schedule()) return std::nullopt;
    if (std::exchange(reordered_, true) || engine.best() == nullptr) return std::nullopt;
    Strategy best = *engine.best();
    if (best.policy.micro_batches == 1) return std::nullopt;
    const bool ordered = best.policy.schedule != plan::Schedule{};
    best.policy.schedule = ordered ? plan::Schedule{} : kPipelineOrder;
    return best;
}

Status PipelineSearch::step(Engine& engine) {
    std::optional<Strategy> strategy = next_layers();
    if (!strategy) strategy = kinds_.next();
    const bool counts = !strategy;
    if (!strategy) strategy = next_grid(engine);
    if (!strategy) strategy = next_order(engine);
    if (!strategy) return Status::found;
    const auto fitted = evaluate_and_recompute(engine, std::move(*strategy));
    if (!fitted) return Status::found;
    const bool best = engine.best() != nullptr && *engine.best() == fitted->strategy;
    if (counts) misses_ = best ? 0 : misses_ + 1;
    return Status::in_progress;
}

}  // namespace partita::search
