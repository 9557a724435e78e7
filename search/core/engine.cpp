// SPDX-License-Identifier: Apache-2.0
#include "search/core/engine.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace partita::search {

using plan::Evaluation;
using plan::Strategy;

Engine::Engine(EngineOptions options, EvaluatorPool& pool, const GroupGraph& groups, Bound bound,
               Duration begin)
    : options_(std::move(options)),
      pool_(pool),
      groups_(groups),
      clock_(options_.clock != nullptr ? *options_.clock : steady_clock()),
      begin_(begin),
      bound_(std::move(bound)),
      turn_{.last = options_.evaluations, .end = options_.time_limit} {
    if (options_.measure) measurements_.emplace(options_.measure);
}

Engine::~Engine() = default;

Duration Engine::elapsed() const {
    return clock_.now() - begin_;
}

bool Engine::interrupted() const {
    if (options_.cancelled != nullptr && options_.cancelled->load()) return true;
    if (guard_ && elapsed() >= *guard_) return true;
    return turn_.end && elapsed() >= *turn_.end;
}

/// Nothing can be better than a plan whose value is the lower bound; what it takes is another
/// matter.
bool Engine::proven() const {
    return !measurements_ && best_ && best_->evaluation.feasible() &&
           best_->evaluation.value <= bound_.value;
}

bool Engine::exhausted() const {
    if (!last_) return false;  // the first evaluation is always granted
    if (turn_.last && evaluations_ >= *turn_.last) return true;
    return interrupted();
}

std::optional<double> Engine::spent() const {
    if (!turn_.last && !turn_.end) return std::nullopt;
    double share = 0;
    if (turn_.last) {
        share = static_cast<double>(evaluations_ - turn_.first) /
                static_cast<double>(std::max<std::int64_t>(*turn_.last - turn_.first, 1));
    }
    if (turn_.end && *turn_.end > turn_.begin) {
        const std::chrono::duration<double> limit = *turn_.end - turn_.begin;
        share = std::max(share, std::chrono::duration<double>(elapsed() - turn_.begin) / limit);
    }
    return share;
}

/// An equal share of what is left. The first one's begins with the search: what was made before it
/// counts.
void Engine::begin_turn(std::size_t searcher, std::size_t searchers) {
    starts_.clear();
    foreseen_.clear();
    detail_.clear();
    done_ = 0;
    random_ = Random::stream(options_.seed, searcher);
    if (searcher > 0) {
        turn_.first = evaluations_;
        if (options_.time_limit) turn_.begin = std::min(elapsed(), *options_.time_limit);
    }
    const auto sharers = static_cast<std::int64_t>(searchers - searcher);
    if (options_.evaluations) {
        const std::int64_t left = std::max<std::int64_t>(*options_.evaluations - turn_.first, 0);
        turn_.last = turn_.first + (left + sharers - 1) / sharers;
    }
    if (options_.time_limit)
        turn_.end = turn_.begin + (*options_.time_limit - turn_.begin) / sharers;
}

/// How many candidates from the first on the evaluation budget has room for; `fresh` marks those
/// that differ from the one before.
std::size_t Engine::granted(const std::vector<char>& fresh) const {
    if (!turn_.last) return fresh.size();
    std::int64_t left = *turn_.last - evaluations_;
    if (!last_) left = std::max<std::int64_t>(left, 1);
    std::size_t count = 0;
    while (count < fresh.size() && (fresh[count] == 0 || left-- > 0)) ++count;
    return count;
}

std::vector<Evaluation> Engine::evaluate(std::span<const Strategy> candidates) {
    std::vector<char> fresh;
    const Strategy* before = last_ ? &last_->strategy : nullptr;
    for (const Strategy& candidate : candidates) {
        fresh.push_back(before == nullptr || !(candidate == *before));
        before = &candidate;
    }
    const std::size_t count = granted(fresh);
    std::vector<Evaluation> results(count);
    const bool first_ever = !last_;
    const std::size_t done = pool_.run(count, [&](int worker, std::size_t index) {
        if (!(first_ever && index == 0) && interrupted()) return false;
        if (fresh[index] == 0) return true;
        const Evaluation* const known = foreseen(candidates[index]);
        results[index] =
            known != nullptr ? *known : pool_.evaluator(worker).evaluate(candidates[index]);
        return true;
    });
    results.resize(done);
    for (std::size_t i = 0; i < done; ++i) {
        if (fresh[i] == 0) {
            results[i] = i > 0 ? results[i - 1] : last_->evaluation;
            continue;
        }
        ++evaluations_;
        evaluated_tasks_ += results[i].tasks;
        offer(candidates[i], results[i]);
    }
    if (done > 0) last_ = Candidate{candidates[done - 1], results[done - 1], searcher_};
    report();
    return results;
}

std::optional<Evaluation> Engine::evaluate(const Strategy& candidate) {
    std::vector<Evaluation> results = evaluate(std::span(&candidate, 1));
    if (results.empty()) return std::nullopt;
    return std::move(results.front());
}

const Evaluation* Engine::foreseen(const Strategy& strategy) const {
    const auto known = std::ranges::find(foreseen_, strategy, &Foreseen::strategy);
    return known != foreseen_.end() ? &known->evaluation : nullptr;
}

void Engine::foresee(std::span<const Strategy* const> next) {
    if (next.empty() || foreseen(*next.front()) != nullptr) return;
    std::size_t count = std::min(next.size(), foresight());
    if (turn_.last) {
        const std::int64_t left = std::max<std::int64_t>(*turn_.last - evaluations_, 0);
        count = std::min(count, static_cast<std::size_t>(left));
    }
    foreseen_.clear();
    if (count < 2) return;
    foreseen_.resize(count);
    // By place and not by worker: no more evaluators than strategies, whoever takes them.
    const std::size_t done = pool_.run(count, [&](int /*worker*/, std::size_t index) {
        if (interrupted()) return false;
        plan::Evaluator& evaluator = pool_.evaluator(static_cast<int>(index));
        foreseen_[index] = {*next[index], evaluator.evaluate(*next[index])};
        return true;
    });
    foreseen_.resize(done);
}

std::vector<Measured> Engine::measure(std::span<const Strategy> candidates) {
    assert(measurements_);
    std::vector<Measured> results;
    for (Evaluation& evaluation : evaluate(candidates)) {
        if (interrupted()) break;
        const Strategy& candidate = candidates[results.size()];
        Measured measured{std::move(evaluation), std::nullopt};
        if (measured.evaluation.feasible()) measured.time = measurements_->time(candidate);
        const bool better =
            measured.time && (!best_->measured || *measured.time < *best_->measured);
        if (better) best_ = Candidate{candidate, measured.evaluation, searcher_, measured.time};
        results.push_back(std::move(measured));
        report();
    }
    return results;
}

/// What those before found by value is a candidate too, and not counted again.
void Engine::measure_best() {
    if (!best_ || best_->measured || !best_->evaluation.feasible() || interrupted()) return;
    best_->measured = measurements_->time(best_->strategy);
}

void Engine::offer(const Strategy& strategy, const Evaluation& evaluation) {
    if (best_ && (best_->measured || !evaluation.better_than(best_->evaluation))) return;
    best_ = Candidate{strategy, evaluation, searcher_};
    if (evaluation.feasible()) improvements_.push_back({evaluations_, evaluation.value});
}

bool Engine::improved_since(std::int64_t evaluations) const {
    constexpr double kWorthIt = 0.99;
    if (improvements_.empty()) return false;
    const auto later =
        std::ranges::upper_bound(improvements_, evaluations, {}, &Improvement::evaluations);
    if (later == improvements_.begin()) return true;
    return improvements_.back().value / std::prev(later)->value < kWorthIt;
}

void Engine::raise_lower_bound(Time bound, std::string_view limited_by) {
    if (bound <= bound_.value) return;
    bound_ = {bound, std::string(limited_by)};
}

void Engine::state_numerical_bound(Time bound, std::string_view by) {
    if (numerical_bound_ && bound <= numerical_bound_->value) return;
    numerical_bound_ = NumericalBound{.value = bound, .gap = std::nullopt, .by = std::string(by)};
}

std::optional<Duration> Engine::time_left() const {
    if (!turn_.end) return std::nullopt;
    return std::max(Duration{0}, *turn_.end - elapsed());
}

void Engine::count_acceptances(std::int64_t proposals, std::int64_t accepted) {
    proposals_ += proposals;
    acceptances_ += accepted;
}

std::int64_t Engine::grant(std::int64_t wanted) {
    const std::int64_t granted =
        turn_.last ? std::clamp(*turn_.last - evaluations_, std::int64_t{0}, wanted) : wanted;
    evaluations_ += granted;
    return granted;
}

void Engine::confirm(std::span<const Strategy> candidates) {
    std::vector<Evaluation> results(candidates.size());
    pool_.run(candidates.size(), [&](int worker, std::size_t index) {
        results[index] = pool_.evaluator(worker).evaluate(candidates[index]);
        return true;
    });
    for (std::size_t i = 0; i < candidates.size(); ++i) offer(candidates[i], results[i]);
    report();
}

void Engine::parallel(std::size_t size, const std::function<void(std::size_t)>& work) {
    pool_.run(size, [&](int /*worker*/, std::size_t index) {
        work(index);
        return true;
    });
}

void Engine::report() {
    if (!options_.progress) return;
    Progress progress{.evaluations = evaluations_,
                      .best = std::nullopt,
                      .measured = std::nullopt,
                      .overflow = {},
                      .lower_bound = bound_.value,
                      .elapsed = elapsed(),
                      .searcher = searcher_,
                      .detail = detail_,
                      .done = done_};
    if (best_) {
        progress.overflow = best_->evaluation.overflow;
        if (best_->evaluation.feasible()) progress.best = best_->evaluation.value;
        progress.measured = best_->measured;
    }
    options_.progress(progress);
}

Status Engine::run(const SearcherRow& row) {
    searcher_ = row.name;
    std::unique_ptr<Searcher> searcher;
    while (true) {
        if (proven()) return Status::optimal;
        if (exhausted()) return Status::budget_exhausted;
        if (!searcher) {
            if (row.learned && measurements_) measure_best();
            searcher = row.make(*this);
            learned_ = learned_ || row.learned;
        }
        const Status status = searcher->step(*this);
        if (status == Status::optimal && measurements_) return Status::found;
        if (status != Status::in_progress) return status;
    }
}

void Engine::add_start() {
    if (best_ && (starts_.empty() || !(starts_.back() == best_->strategy))) {
        starts_.push_back(best_->strategy);
    }
}

std::optional<double> Engine::acceptance_rate() const {
    if (proposals_ == 0) return std::nullopt;
    return static_cast<double>(acceptances_) / static_cast<double>(proposals_);
}

std::int64_t Engine::measurements() const {
    return measurements_ ? static_cast<std::int64_t>(measurements_->count()) : 0;
}

}  // namespace partita::search
