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

constexpr double kTreeShare = 0.3;  ///< of a limit of time, where HiGHS follows
constexpr std::uint64_t kSeeds = std::uint64_t{1} << 31U;  ///< that HiGHS knows

// Targets, as shares of the way from the bound to the value.
constexpr double kLeastShare = 0.02;
constexpr double kLess = 4;            ///< after a target that took too long
constexpr double kMore = 2;            ///< after one that was proven
constexpr std::int64_t kMoreTime = 4;  ///< after the lowest took too long
constexpr std::int64_t kMostOperations = std::int64_t{1} << 62;  ///< for ever

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

std::int64_t TargetSchedule::target(std::int64_t bound, std::int64_t value) const {
    const std::int64_t gap = value - bound;
    if (gap <= value / kFinest) return value;
    const auto way = static_cast<std::int64_t>(share_ * static_cast<double>(gap));
    return bound + std::max<std::int64_t>(1, way);
}

void TargetSchedule::took_too_long() {
    share_ /= kLess;
    if (share_ >= kLeastShare) return;
    share_ = 1;
    operations_ = std::min(operations_, kMostOperations / kMoreTime) * kMoreTime;
}

void TargetSchedule::was_proven() {
    share_ = std::min(1.0, share_ * kMore);
}

Exact::Exact(ExactOptions options) : options_(options) {}

Exact::~Exact() = default;

Status Exact::step(Engine& engine) {
    switch (stage_) {
    case Stage::begin: return begin(engine);
    case Stage::tree: return look_further(engine);
    case Stage::highs: return ask_highs(engine);
    }
    return Status::found;
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
    time_given_ = engine.time_left().value_or(Duration{0});
    choose_solvers(engine);
    return next_target(engine);
}

void Exact::choose_solvers(Engine& engine) {
    const ExactEngine asked = engine.options().exact_engine;
    highs_follows_ = asked != ExactEngine::own && !highs_version().text.empty();
    if (highs_follows_ && !fits_milp(load_)) {
        highs_follows_ = false;
        engine.note("exact: too large for HiGHS, which was not asked.");
    }
    stage_ = highs_follows_ && asked == ExactEngine::highs ? Stage::highs : Stage::tree;
}

Status Exact::look_further(Engine& engine) {
    spent_ += kOperationsPerStep;
    left_ -= kOperationsPerStep;
    if (tree_->advance(kOperationsPerStep)) return end_target(engine);
    if (tree_is_over(engine)) return end_tree();
    if (left_ > 0) return Status::in_progress;
    schedule_.took_too_long();
    return next_target(engine);
}

/// Its share of the budget is spent.
bool Exact::tree_is_over(const Engine& engine) const {
    const std::optional<Duration> left = engine.time_left();
    if (!left) return spent_ >= options_.operations;
    const std::chrono::duration<double> given = time_given_;
    return highs_follows_ && *left <= (1 - kTreeShare) * given;
}

Status Exact::end_tree() {
    if (!highs_follows_) return Status::found;
    stage_ = Stage::highs;
    return Status::in_progress;
}

/// Or the end: bound and value have met.
Status Exact::next_target(Engine& engine) {
    const plan::Evaluation* best = engine.best_evaluation();
    const bool feasible = best != nullptr && best->feasible();
    const std::int64_t value = feasible ? best->value.raw() : beyond_;
    if (bound_ >= value) {
        if (feasible) return Status::optimal;
        engine.note("exact: no placement fits the memory (all tried).");
        return Status::found;
    }
    target_ = schedule_.target(bound_, value);
    left_ = schedule_.operations();
    tree_->look_below(target_);
    return Status::in_progress;
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

/// Once; twice where no plan fitted before. What is left of a time limit then, for HiGHS looks at
/// the clock only now and then, is for the tree.
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
    highs_follows_ = false;
    stage_ = Stage::tree;
    return status == MilpStatus::stopped && engine.time_left() ? Status::in_progress
                                                               : Status::found;
}

Status Exact::end_target(Engine& engine) {
    if (const auto& devices = tree_->solution()) {
        offer(engine, *devices);
    } else {
        bound_ = target_;
        schedule_.was_proven();
        if (target_ < beyond_)
            engine.raise_lower_bound(Time(bound_), "all placements below it, excluded by exact");
    }
    return next_target(engine);
}

void check_exact_engine(ExactEngine engine) {
    if (engine != ExactEngine::highs || !highs_version().text.empty()) return;
    throw UsageError(
        fmt::format("--engine highs: {}, or leave --engine out.", highs_version().missing));
}

}  // namespace partita::search
