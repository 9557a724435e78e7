// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/local/load_search.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "plan/evaluation/max_load.h"
#include "search/core/engine.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

/// Of one chain between two looks at the others: a few milliseconds.
constexpr std::int64_t kProposalsPerWalk = 20'000;

/// The first run of a chain, per vertex.
constexpr std::int64_t kFirstWork = 1'000;
constexpr int kMostDoublings = 30;

/// What branch and bound may take for one neighbourhood, as a part of all work before.
constexpr std::int64_t kShareOfLook = 2;

constexpr double kSharp = 60;
constexpr double kBlunt = 20;

/// Pins are counted per net and device in tables of 32-bit numbers, one per chain and one to look
/// around: half a gigabyte for all of them.
constexpr std::size_t kMostCounts =
    (std::size_t{1} << 27U) / (static_cast<std::size_t>(LoadSearchOptions{}.chains) + 1);

/// May any vertex go elsewhere?
bool can_move(const LoadProblem& problem) {
    const LoadGraph& graph = problem.graph;
    for (std::size_t v = 0; v < graph.size; ++v) {
        const auto allowed =
            std::count_if(problem.devices.begin(), problem.devices.end(),
                          [&](const auto& device) { return graph.time(v, device.kind) != kNever; });
        if (allowed > 1) return true;
    }
    return false;
}

}  // namespace

struct LoadSearch::ChainOf {
    ChainOf(const LoadProblem& problem, Random random) : annealer(problem, random) {}
    LoadAnnealer annealer;
    int runs = 0;
};

LoadSearch::LoadSearch(LoadSearchOptions options) : options_(options) {}

LoadSearch::~LoadSearch() = default;

bool LoadSearch::applies(const Engine& engine) {
    const plan::Problem& problem = engine.problem();
    const auto devices = static_cast<std::size_t>(problem.device_count());
    return problem.objective() == plan::Objective::throughput && plan::has_given_costs(problem) &&
           problem.graph().tensor_count() <= kMostCounts / devices;
}

Status LoadSearch::step(Engine& engine) {
    if (!problem_) start(engine);
    if (!can_move(*problem_)) return Status::found;
    if (neighbourhoods_) {
        look_around(engine);
        return Status::in_progress;
    }
    if (work_ >= next_look_) {
        begin_to_look();
        return Status::in_progress;
    }
    return is_over(engine) ? Status::found : round(engine);
}

/// Once per doubling of the work, at plans that fit.
void LoadSearch::begin_to_look() {
    next_look_ = 2 * std::max<std::int64_t>(work_, 1);
    if (best_score_.overflow > 0 || best_ == looked_at_) return;
    neighbourhoods_ = std::make_unique<LoadNeighbourhoods>(*problem_, work_ / kShareOfLook);
    neighbourhoods_->begin(best_);
}

void LoadSearch::look_around(Engine& engine) {
    neighbourhoods_->advance(
        [&](std::size_t size, const auto& work) { engine.parallel(size, work); },
        [&] { return engine.interrupted(); });
    if (neighbourhoods_->best_score() < best_score_) {
        take(engine, neighbourhoods_->best_score(), neighbourhoods_->best());
    }
    if (!neighbourhoods_->over()) return;
    looked_at_ = neighbourhoods_->best();
    neighbourhoods_.reset();
}

/// The engine ends a search whose budget is spent.
bool LoadSearch::is_over(const Engine& engine) const {
    return (options_.own_budget || !engine.spent()) && work_ >= most_work_;
}

void LoadSearch::start(Engine& engine) {
    assert(engine.best() != nullptr);
    const GroupGraph& groups = engine.groups();
    problem_ = std::make_unique<LoadProblem>(make_load_problem(groups));
    const LoadProblem& problem = *problem_;
    const auto size = static_cast<std::int64_t>(problem.graph.size);
    most_work_ = options_.most_work;
    if (size == 0 || size <= most_work_ / options_.work_per_pair / size) {
        most_work_ = options_.work_per_pair * size * size;
    }
    first_.resize(problem.graph.size);
    const Placement placement = groups.placement(*engine.best());
    for (std::size_t g = 0; g < placement.size(); ++g) {
        first_[static_cast<std::size_t>(problem.of[g])] = placement[g];
    }
    next_look_ = most_work_;
    best_ = first_;
    const plan::Evaluation& best = *engine.best_evaluation();
    best_score_ = {.overflow = best.overflow.raw(), .load = best.value.raw()};
    const std::uint64_t seed = engine.random().next();
    for (int i = 0; i < options_.chains; ++i) {
        chains_.push_back(std::make_unique<ChainOf>(
            problem, Random::stream(seed, static_cast<std::uint64_t>(i))));
    }
}

void LoadSearch::begin_run(std::size_t index) {
    ChainOf& chain = *chains_[index];
    const bool anywhere = index % 2 == 1 && chain.runs % 2 == 0;
    LoadAnnealing options;
    options.work = (kFirstWork * static_cast<std::int64_t>(problem_->graph.size))
                   << std::min(chain.runs, kMostDoublings);
    options.first_sharpness = index / 2 % 2 == 0 ? kSharp : kBlunt;
    if (anywhere) {
        chain.annealer.begin(chain.annealer.random_start(), options);
    } else {
        chain.annealer.begin(index % 2 == 1 ? first_ : best_, options);
    }
    ++chain.runs;
}

Status LoadSearch::round(Engine& engine) {
    const auto count = static_cast<std::int64_t>(chains_.size());
    const std::int64_t granted = engine.grant(count * kProposalsPerWalk);
    std::vector<LoadAnnealer::Steps> steps(chains_.size());
    engine.parallel(chains_.size(), [&](std::size_t i) {
        ChainOf& chain = *chains_[i];
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t own = granted / count + (index < granted % count ? 1 : 0);
        if (chain.runs == 0 || chain.annealer.over()) begin_run(i);
        steps[i] = chain.annealer.advance(own, [&] { return engine.interrupted(); });
    });
    std::int64_t made = 0;
    for (const LoadAnnealer::Steps& own : steps) {
        made += own.proposals;
        work_ += own.work;
        engine.count_acceptances(own.proposals, own.acceptances);
    }
    engine.give_back(granted - made);
    adopt(engine);
    return Status::in_progress;
}

/// The best of all chains, if it is new.
void LoadSearch::adopt(Engine& engine) {
    const auto score = [](const auto& chain) { return chain->annealer.best_score(); };
    const LoadAnnealer& best = (*std::ranges::min_element(chains_, {}, score))->annealer;
    if (best.best_score() < best_score_) take(engine, best.best_score(), best.best());
}

void LoadSearch::take(Engine& engine, const LoadScore& score,
                      const std::vector<std::int32_t>& devices) {
    best_score_ = score;
    best_ = devices;
    const std::array candidates = {strategy(engine, best_)};
    engine.confirm(candidates);
}

plan::Strategy LoadSearch::strategy(const Engine& engine,
                                    const std::vector<std::int32_t>& devices) const {
    Placement placement;
    for (const std::int32_t vertex : problem_->of) {
        placement.push_back(devices[static_cast<std::size_t>(vertex)]);
    }
    return engine.groups().strategy(placement);
}

}  // namespace partita::search
