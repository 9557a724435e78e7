// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/evaluator.h"

#include <algorithm>
#include <cassert>

namespace partita::plan {

namespace {

/// Admits all that keeps its schedule.
constexpr Score kAny{.keeps_schedule = true, .overflow = Bytes::max(), .value = Time::max()};

}  // namespace

IncrementalEvaluator::IncrementalEvaluator(const Problem& problem, const IncrementalLimits& limits)
    : problem_(problem),
      limits_(limits),
      cache_(problem),
      whole_(make_evaluator(problem, Scheduler::rank)) {
    for (int d = 0; d < problem.device_count(); ++d) {
        capacities_.push_back(problem.constraints().memory_capacity(d));
    }
}

Score IncrementalEvaluator::start(const Strategy& strategy) {
    pending_.reset();
    if (go_to(strategy)) return score_;
    strategy_ = strategy;
    lower();
    if (!lowering_) score_ = score_of(whole_->evaluate(strategy));
    return score_;
}

/// As one change of the strategy before, if that is no more work. False: it is not there.
bool IncrementalEvaluator::go_to(const Strategy& strategy) {
    if (!lowering_ || cache_.is_large() || strategy.policy != strategy_.policy) return false;
    differing_.clear();
    std::size_t configs = 0;  // that differ; other updates are little work
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        const OpDecision& decision = strategy.ops[i];
        if (decision == strategy_.ops[i]) continue;
        differing_.push_back({graph::OpId(i), decision});
        if (decision.config != strategy_.ops[i].config) ++configs;
    }
    if (2 * configs > strategy.ops.size()) return false;
    change_ = {.ops = differing_};
    is_whole_ = false;
    pending_ = evaluate_incrementally(kAny);
    if (!pending_) return false;
    accept();
    return true;
}

/// Everything but the strategy anew; the score too, unless that is evaluated as a whole.
void IncrementalEvaluator::lower() {
    memory_.reset();
    timeline_.reset();
    lowering_.reset();
    cache_.forget_if_large();
    if (!is_makespan(problem_) || !is_incremental(problem_, strategy_)) return;
    lowering_ = std::make_unique<IncrementalLowering>(problem_, strategy_, cache_, limits_);
    if (!lowering_->has_room()) {
        lowering_.reset();
        return;
    }
    timeline_ = std::make_unique<IncrementalTimeline>(resource_count_of(problem_),
                                                      cache_.resource_sets().resources(),
                                                      cache_.resource_sets().hosts());
    memory_ = std::make_unique<IncrementalMemory>(problem_, *lowering_, capacities_);
    const auto tasks = lowering_->slots();
    put_resource_sets();
    const auto makespan = timeline_->evaluate(tasks);
    score_ = {true, overflow(), *makespan};
    timeline_->accept();
    lowering_->accept();
}

/// Those that lowering found since.
void IncrementalEvaluator::put_resource_sets() {
    const Csr<std::int32_t>& resource_sets = cache_.resource_sets().resources();
    for (std::size_t i = timeline_->graph().resource_sets(); i < resource_sets.rows(); ++i) {
        timeline_->graph().add_resource_set(resource_sets[i], cache_.resource_sets().hosts()[i]);
    }
}

std::optional<Score> IncrementalEvaluator::evaluate(const StrategyChange& change,
                                                    const Score& limit) {
    assert(!pending_);
    ++effort_.evaluations;
    if (cache_.is_large()) lower();
    change_ = change;
    // Another policy is no matter of a few ops.
    is_whole_ = lowering_ == nullptr || !limit.keeps_schedule || change.policy != nullptr;
    pending_ = is_whole_ ? evaluate_whole(limit) : evaluate_incrementally(limit);
    return pending_;
}

std::optional<Score> IncrementalEvaluator::evaluate_whole(const Score& limit) {
    ++effort_.whole;
    Strategy next = strategy_;
    apply(next, change_);
    const Score score = score_of(whole_->evaluate(next));
    if (!limit.admits(score)) return std::nullopt;
    return score;
}

std::optional<Score> IncrementalEvaluator::evaluate_incrementally(const Score& limit) {
    const Time most = limit.overflow == Bytes{0} ? limit.value : Time::max();
    lowering_->begin(change_);
    if (!lowering_->has_room()) return evaluate_whole_instead(limit);
    if (!has_time(most)) {
        ++effort_.rejected_by_parts;
        return rejected();
    }
    lowering_->look_up();
    if (!lowering_->has_room()) return evaluate_whole_instead(limit);
    if (!has_time(most)) {
        ++effort_.rejected_by_load;
        return rejected();
    }
    if (!lowering_->keeps_schedule()) return rejected();
    const auto tasks = lowering_->slots();
    put_resource_sets();
    const auto makespan = timeline_->evaluate(tasks, most);
    if (!makespan) return rejected();
    const Score score{true, overflow(), *makespan};
    if (limit.admits(score)) return score;
    timeline_->reject();
    return rejected();
}

/// Of a change for which there is no room.
std::optional<Score> IncrementalEvaluator::evaluate_whole_instead(const Score& limit) {
    lowering_->reject();
    is_whole_ = true;
    return evaluate_whole(limit);
}

std::optional<Score> IncrementalEvaluator::rejected() {
    lowering_->reject();
    return std::nullopt;
}

bool IncrementalEvaluator::has_time(Time limit) const {
    const auto loads = lowering_->least_loads();
    return std::all_of(loads.begin(), loads.end(),
                       [&](std::int64_t load) { return load <= limit.raw(); });
}

/// Of the pending change.
Bytes IncrementalEvaluator::overflow() {
    if (memory_->surely_fits()) return Bytes{0};
    ++effort_.memory;
    timeline_->write_pending_order(order_);
    memory_->peaks(timeline_->graph(), order_);
    return memory_->overflow();
}

void IncrementalEvaluator::accept() {
    assert(pending_);
    score_ = *pending_;
    pending_.reset();
    apply(strategy_, change_);
    if (is_whole_) {
        lower();
        return;
    }
    timeline_->accept();
    lowering_->accept();
}

void IncrementalEvaluator::reject() {
    assert(pending_);
    pending_.reset();
    if (is_whole_) return;
    timeline_->reject();
    lowering_->reject();
}

std::size_t IncrementalEvaluator::tasks() const {
    return timeline_ ? timeline_->order().size() : 0;
}

const TimelineEffort* IncrementalEvaluator::timeline_effort() const {
    return timeline_ ? &timeline_->effort() : nullptr;
}

}  // namespace partita::plan
