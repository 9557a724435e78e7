// SPDX-License-Identifier: Apache-2.0
#include "search/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "search/engine.h"
#include "search/pieces/graph.h"

namespace partita::search {

namespace {

constexpr std::int64_t kOperationsPerStep = 100'000'000;

constexpr std::int64_t kFirstTurn = 2'000'000'000;  ///< operations that the first targets have
constexpr std::int64_t kMoreTime = 4;
constexpr std::int64_t kSeedWork = 30'000'000;  ///< of local search

// Targets, as shares of the way from the bound to the value.
constexpr double kFirstShare = 0.5;
constexpr double kLeastShare = 0.02;
constexpr double kLess = 4;  ///< after a target that took too long
constexpr double kMore = 2;  ///< after one that was proven

/// Below a 1e5th of the value between them, nothing is asked but for the value itself.
constexpr std::int64_t kFinest = 100'000;

/// Larger than any load of the problem.
std::int64_t beyond_all_loads(const LoadProblem& problem) {
    Int128 sum = 1;
    for (const std::int64_t time : problem.graph.times) sum += time < kNever ? time : 0;
    for (const std::int64_t cost : problem.graph.costs) sum += cost;
    return static_cast<std::int64_t>(std::min<Int128>(sum, kNever));
}

}  // namespace

Exact::Exact(ExactOptions options) : options_(options) {}

Exact::~Exact() = default;

Status Exact::step(Engine& engine) {
    if (!tree_) return begin(engine);
    spent_ += kOperationsPerStep;
    left_ -= kOperationsPerStep;
    if (tree_->advance(kOperationsPerStep)) return end_target(engine);
    const bool limited = engine.options().time_limit.has_value();
    if (!limited && spent_ >= options_.operations) return Status::found;
    return left_ > 0 ? Status::in_progress : give_way(engine);
}

/// Status::found when there is nothing more to start from.
Status Exact::seed(Engine& engine) {
    if (!LoadSearch::applies(engine)) {
        if (!general_) general_ = std::make_unique<LocalSearch>();
        return general_->step(engine);
    }
    if (!local_) {
        if (!contiguous_) contiguous_ = std::make_unique<Contiguous>();
        const Status status = contiguous_->step(engine);
        if (status != Status::found) return status;
        local_ = std::make_unique<LoadSearch>(
            LoadSearchOptions{.most_work = kSeedWork, .own_budget = true});
    }
    return local_->step(engine);
}

Status Exact::begin(Engine& engine) {
    if (const Status status = seed(engine); status != Status::found) return status;
    if (!LoadSearch::applies(engine)) {
        engine.note("exact: no proof beyond the lower bound for this objective.");
        return Status::found;
    }
    if (static_cast<std::size_t>(engine.problem().device_count()) > kMostMaskDevices) {
        engine.note(
            fmt::format("exact: nothing is proven on more than {} devices.", kMostMaskDevices));
        return Status::found;
    }
    load_ = make_load_problem(engine.groups());
    beyond_ = beyond_all_loads(load_);
    bound_ = engine.lower_bound().raw();
    tree_ = std::make_unique<LoadTree>(load_);
    turn_ = kFirstTurn;
    share_ = kFirstShare;
    return aim(engine);
}

/// The next target, or the end.
Status Exact::aim(Engine& engine) {
    const plan::Evaluation* best = engine.best_evaluation();
    const bool feasible = best != nullptr && best->feasible();
    const std::int64_t value = feasible ? best->value.raw() : beyond_;
    if (bound_ >= value) {
        if (feasible) return Status::optimal;
        engine.note("exact: no placement fits the memory (all tried).");
        return Status::found;
    }
    const std::int64_t gap = value - bound_;
    const auto way = static_cast<std::int64_t>(share_ * static_cast<double>(gap));
    target_ = gap > value / kFinest ? bound_ + std::max<std::int64_t>(1, way) : value;
    left_ = turn_;
    tree_->look_below(target_);
    return Status::in_progress;
}

/// To a lower target; from the lowest to the highest, with more time.
Status Exact::give_way(Engine& engine) {
    share_ /= kLess;
    if (share_ < kLeastShare) {
        share_ = 1;
        turn_ *= kMoreTime;
    }
    return aim(engine);
}

Status Exact::end_target(Engine& engine) {
    if (const auto& devices = tree_->solution()) {
        Placement placement;
        for (const std::int32_t vertex : load_.of) {
            placement.push_back((*devices)[static_cast<std::size_t>(vertex)]);
        }
        static_cast<void>(engine.evaluate(engine.groups().strategy(placement)));
    } else {
        bound_ = target_;
        share_ = std::min(1.0, share_ * kMore);
        if (target_ < beyond_)
            engine.raise_lower_bound(Time(bound_), "all placements below it, excluded by exact");
    }
    return aim(engine);
}

}  // namespace partita::search
