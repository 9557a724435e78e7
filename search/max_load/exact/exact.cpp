// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "search/max_load/exact/highs.h"
#include "search/max_load/exact/milp_bound.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

constexpr std::int64_t kOperationsPerStep = 100'000'000;

constexpr std::int64_t kFirstTurn = 2'000'000'000;  ///< operations that the first targets have
constexpr std::int64_t kMoreTime = 4;
constexpr double kTreeShare = 0.3;  ///< of a limit of time, where HiGHS follows
constexpr std::uint64_t kSeeds = std::uint64_t{1} << 31U;  ///< that HiGHS knows

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
    if (for_highs_) return ask_highs(engine);
    spent_ += kOperationsPerStep;
    left_ -= kOperationsPerStep;
    if (tree_->advance(kOperationsPerStep)) return end_target(engine);
    if (tree_is_over(engine)) return end_tree();
    return left_ > 0 ? Status::in_progress : give_way(engine);
}

/// Its share of the budget is spent.
bool Exact::tree_is_over(const Engine& engine) const {
    const std::optional<Duration> left = engine.time_left();
    if (!left) return spent_ >= options_.operations;
    const std::chrono::duration<double> given = time_given_;
    return with_highs_ && *left <= (1 - kTreeShare) * given;
}

Status Exact::end_tree() {
    for_highs_ = with_highs_;
    return with_highs_ ? Status::in_progress : Status::found;
}

Status Exact::begin(Engine& engine) {
    if (static_cast<std::size_t>(engine.problem().device_count()) > kMostMaskDevices) {
        engine.note(
            fmt::format("exact: nothing is proven on more than {} devices.", kMostMaskDevices));
        return Status::found;
    }
    return start(engine);
}

Status Exact::start(Engine& engine) {
    groups_ = std::make_unique<GroupGraph>(engine.problem(),
                                           make_groups(engine.problem(), Grouping::required_only));
    load_ = make_load_problem(*groups_);
    beyond_ = beyond_all_loads(load_);
    bound_ = engine.lower_bound().raw();
    tree_ = std::make_unique<LoadTree>(load_);
    turn_ = kFirstTurn;
    share_ = kFirstShare;
    time_given_ = engine.time_left().value_or(Duration{0});
    const ExactEngine asked = engine.options().exact_engine;
    with_highs_ = asked != ExactEngine::own && !highs_version().text.empty();
    if (with_highs_ && !fits_milp(load_)) {
        with_highs_ = false;
        engine.note("exact: too large for HiGHS, which was not asked.");
    }
    for_highs_ = with_highs_ && asked == ExactEngine::highs;
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

void Exact::offer(Engine& engine, const std::vector<std::int32_t>& devices) {
    Placement placement;
    for (const std::int32_t vertex : load_.of) {
        placement.push_back(devices[static_cast<std::size_t>(vertex)]);
    }
    static_cast<void>(engine.evaluate(groups_->strategy(placement)));
}

MilpOptions Exact::highs_options(const Engine& engine) const {
    MilpOptions options;
    options.seed = static_cast<std::int32_t>(engine.options().seed % kSeeds);
    options.stop = [&engine] { return engine.interrupted(); };
    if (const auto left = engine.time_left()) {
        options.seconds = std::chrono::duration<double>(*left).count();
    } else {
        options.iterations = milp_iterations(load_, options_.highs_operations);
    }
    return options;
}

/// Once; twice where no plan fitted before. What is left of a time limit then, for HiGHS looks at the clock only
/// now and then, is for the tree.
Status Exact::ask_highs(Engine& engine) {
    const auto feasible = [&] { return engine.best_evaluation()->feasible(); };
    const bool was_feasible = feasible();
    const std::int64_t value = was_feasible ? engine.best_evaluation()->value.raw() : beyond_;
    const MilpBound answer = milp_bound(load_, bound_, value, highs_options(engine));
    if (answer.devices) offer(engine, *answer.devices);
    if (was_feasible) {
        engine.state_numerical_bound(Time(answer.bound), "HiGHS " + highs_version().text);
    }
    const MilpStatus status = answer.result.status;
    if (status == MilpStatus::optimal && !was_feasible && feasible()) return Status::in_progress;
    with_highs_ = for_highs_ = false;
    return status == MilpStatus::stopped && engine.time_left() ? Status::in_progress
                                                               : Status::found;
}

Status Exact::end_target(Engine& engine) {
    if (const auto& devices = tree_->solution()) {
        offer(engine, *devices);
    } else {
        bound_ = target_;
        share_ = std::min(1.0, share_ * kMore);
        if (target_ < beyond_)
            engine.raise_lower_bound(Time(bound_), "all placements below it, excluded by exact");
    }
    return aim(engine);
}

void check_exact_engine(ExactEngine engine) {
    if (engine != ExactEngine::highs || !highs_version().text.empty()) return;
    throw UsageError(
        fmt::format("--engine highs: {}, or leave --engine out.", highs_version().missing));
}

}  // namespace partita::search
