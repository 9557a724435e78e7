// SPDX-License-Identifier: Apache-2.0
#include "search/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/error.h"
#include "plan/legality/config_legality.h"
#include "plan/legality/stages.h"
#include "search/baselines.h"
#include "search/data_parallel.h"
#include "search/learned.h"
#include "search/lower_bound.h"
#include "search/searchers.h"
#include "search/single_device.h"

namespace partita::search {

using plan::Evaluation;
using plan::Problem;
using plan::Strategy;

namespace {

int worker_count(int threads) {
    if (threads > 0) return threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// "gpu0 needs 5.20 GiB and has 4.00 GiB; gpu1 ..."
std::string shortage_of(const Problem& problem, const Strategy& strategy,
                        const Evaluation& evaluation) {
    if (const auto fault = plan::find_schedule_fault(problem, strategy)) {
        return fmt::format(
            "no plan found keeps the schedule: in the closest one {}. Use another --schedule or "
            "number of micro-batches, or a searcher that proposes pipelines (expert, auto).",
            *fault);
    }
    constexpr int kNamed = 4;
    std::string text;
    int over = 0;
    for (int d = 0; d < problem.device_count(); ++d) {
        const Bytes needed = evaluation.devices[static_cast<std::size_t>(d)].memory;
        const Bytes capacity = problem.memory_capacity(d);
        if (needed <= capacity || ++over > kNamed) continue;
        text += fmt::format("{}{} needs {} ({} bytes) and has {} ({} bytes)",
                            text.empty() ? "" : "; ", problem.machine().device(d).name,
                            to_text(needed), needed.raw(), to_text(capacity), capacity.raw());
    }
    if (over > kNamed) text += fmt::format("; and {} more devices", over - kNamed);
    return fmt::format(
        "no plan found fits the memory: in the closest one {}, {} bytes short in all. Use more "
        "devices or devices with more memory, or a smaller batch.",
        text, evaluation.overflow.raw());
}

}  // namespace

Engine::Engine(const Problem& problem, EngineOptions options)
    : problem_(problem),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : steady_clock()),
      begin_(clock_.now()),
      workers_(worker_count(options_.threads)),
      evaluators_(static_cast<std::size_t>(workers_.count())),
      turn_{.last = options_.evaluations, .end = options_.time_limit} {
    for (const std::string& name : options_.searchers) parse_searchers(name);
    if (any_learned(options_.searchers)) learned_searchers(options_);
    if (options_.measure) measurements_.emplace(options_.measure);
    check_start();
}

Engine::~Engine() = default;

void Engine::check_start() const {
    if (!options_.start) return;
    const auto& configs = options_.start->configs;
    if (configs.size() != problem_.graph().op_count()) {
        throw UsageError(fmt::format("the start plan places {} ops, the model has {}",
                                     configs.size(), problem_.graph().op_count()));
    }
    const plan::Policy& policy = options_.start->policy;
    if (!problem_.allows(policy)) {
        throw UsageError(fmt::format(
            "the start plan is for --micro-batches {} --schedule {} --optimizer {} --loss {} "
            "--gradient-sync {}, which is not what is asked for. Give --micro-batches and the "
            "others as it has them, or plan without --import-plan.",
            policy.micro_batches, to_text(policy.schedule), name_of(policy.optimizer),
            name_of(policy.loss), name_of(policy.gradient_sync)));
    }
    if (const auto fault = plan::find_fault(problem_, *options_.start)) {
        throw UsageError(
            fmt::format("the start plan is not allowed here: {}. Plan without "
                        "--import-plan, or change the constraints.",
                        *fault));
    }
}

/// Where nobody asked for any.
void Engine::choose_limits(std::span<const SearcherRow> searchers) {
    constexpr Duration kLimit = std::chrono::seconds(10);
    constexpr Duration kGuard = std::chrono::seconds(60);
    if (!options_.default_budget) return;
    if (std::ranges::any_of(searchers, &SearcherRow::endless)) {
        options_.time_limit = kLimit;
    } else {
        guard_ = kGuard;
    }
}

/// Each worker touches its own only.
plan::Evaluator& Engine::evaluator(int worker) {
    auto& own = evaluators_[static_cast<std::size_t>(worker)];
    if (!own) own = plan::make_evaluator(problem_, options_.scheduler);
    return *own;
}

Duration Engine::elapsed() const {
    return clock_.now() - begin_;
}

bool Engine::interrupted() const {
    if (options_.cancelled != nullptr && options_.cancelled->load()) return true;
    if (guard_ && elapsed() >= *guard_) return true;
    return turn_.end && elapsed() >= *turn_.end;
}

/// Nothing can be better than a plan whose value is the lower bound; what it takes is another matter.
bool Engine::proven() const {
    return !measurements_ && best_ && best_->evaluation.feasible() &&
           best_->evaluation.value <= lower_bound_;
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

/// An equal share of what is left. The first one's begins with the search: what was made before it counts.
void Engine::begin_turn(std::size_t searcher, std::size_t searchers) {
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
    const std::size_t done = workers_.run(count, [&](int worker, std::size_t index) {
        if (!(first_ever && index == 0) && interrupted()) return false;
        if (fresh[index] == 0) return true;
        results[index] = evaluator(worker).evaluate(candidates[index]);
        return true;
    });
    results.resize(done);
    for (std::size_t i = 0; i < done; ++i) {
        if (fresh[i] == 0) {
            results[i] = i > 0 ? results[i - 1] : last_->evaluation;
            continue;
        }
        ++evaluations_;
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
    if (bound <= lower_bound_) return;
    lower_bound_ = bound;
    limited_by_ = limited_by;
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
    workers_.run(candidates.size(), [&](int worker, std::size_t index) {
        results[index] = evaluator(worker).evaluate(candidates[index]);
        return true;
    });
    for (std::size_t i = 0; i < candidates.size(); ++i) offer(candidates[i], results[i]);
    report();
}

void Engine::parallel(std::size_t size, const std::function<void(std::size_t)>& work) {
    workers_.run(size, [&](int /*worker*/, std::size_t index) {
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
                      .lower_bound = lower_bound_,
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

Status Engine::search(std::span<const SearcherRow> searchers) {
    if (options_.start) {
        searcher_ = "import-plan";
        static_cast<void>(evaluate(*options_.start));
    }
    bool cut_short = false;
    for (std::size_t i = 0; i < searchers.size(); ++i) {
        begin_turn(i, searchers.size());
        searcher_ = searchers[i].name;
        detail_.clear();
        done_ = 0;
        random_ = Random::stream(options_.seed, i);
        const Status status = run(searchers[i]);
        if (status == Status::optimal) return status;
        cut_short = cut_short || status == Status::budget_exhausted;
    }
    if (proven()) return Status::optimal;
    return cut_short ? Status::budget_exhausted : Status::found;
}

/// Nothing is made where it would have no turn.
Status Engine::run(const SearcherRow& row) {
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

SearchResult Engine::run() {
    std::vector<SearcherRow> rows;
    for (const std::string& name : options_.searchers) rows.push_back(*find_searcher(name));
    return run(rows);
}

SearchResult Engine::run(std::span<const SearcherRow> searchers) {
    assert(!groups_);  // run() is called once
    Groups groups = make_groups(problem_, options_.group ? Grouping::all : Grouping::required_only);
    if (!groups.conflict.empty()) return infeasible(groups.conflict);
    const LowerBound bound = search::lower_bound(problem_);
    if (!bound.shortage.empty()) return infeasible(bound.shortage);
    lower_bound_ = bound.value;
    limited_by_ = bound.limited_by;
    groups_ = std::make_unique<GroupGraph>(problem_, std::move(groups));
    choose_limits(searchers);
    const Status status = search(searchers);
    if (learned_) learned_searchers(options_).finish();
    return finish(status);
}

Baseline Engine::single_device_baseline() {
    Baseline baseline{"single-device", "1 device", std::nullopt};
    for (const int device : single_device_candidates(*groups_)) {
        const Evaluation evaluation =
            evaluator(0).evaluate(groups_->strategy(place_on(*groups_, device)));
        if (!evaluation.feasible()) continue;
        baseline.value = evaluation.value;  // fastest first: the others are slower
        break;
    }
    return baseline;
}

/// What the searcher finds where it is the only one. Where it was, that is known; else not priced where a plan
/// over all devices has more than kMostParts.
Baseline Engine::tuned_baseline(std::string_view searcher, Status status) {
    constexpr std::int64_t kMostParts = 400'000;
    constexpr std::int64_t kMostWork = 4'000'000;  // parts of all evaluations
    constexpr std::int64_t kMostEvaluations = 64;
    Baseline baseline{std::string(searcher), "", std::nullopt};
    const std::int64_t devices = problem_.device_count();
    const std::int64_t parts = static_cast<std::int64_t>(problem_.graph().op_count()) * devices *
                               problem_.policy().micro_batches;
    if (parts == 0) return baseline;
    if (devices < 2 || parts > kMostParts) return baseline;
    const bool shares_batches = data_parallel_devices(problem_).front().size() > 1;
    if (searcher == "data-parallel" && !shares_batches) return baseline;
    const bool was_alone = options_.searchers.size() == 1 && options_.searchers[0] == searcher &&
                           !options_.start && status != Status::budget_exhausted;
    const std::int64_t evaluations =
        std::clamp<std::int64_t>(kMostWork / parts, 1, kMostEvaluations);
    const SearcherRow& row = *find_searcher(searcher);
    std::optional<Candidate> found = was_alone ? best_ : aside(row, evaluations);
    if (problem_.fixes_batch()) {
        std::optional<Candidate> free = with_free_batch(row, evaluations);
        if (free && (!found || free->evaluation.better_than(found->evaluation))) {
            found = std::move(free);
        }
    }
    if (!found || !found->evaluation.feasible()) return baseline;
    baseline.value = found->evaluation.value;
    baseline.configuration = configuration_of(problem_, found->strategy);
    return baseline;
}

/// The same on a problem that leaves the cut of the batch to the searcher.
std::optional<Engine::Candidate> Engine::with_free_batch(const SearcherRow& row,
                                                         std::int64_t evaluations) const {
    const Problem problem = problem_.with_free_batch();
    Engine engine(problem, {.searchers = {std::string(row.name)},
                            .scheduler = options_.scheduler,
                            .seed = options_.seed,
                            .threads = workers_.count(),
                            .contiguous = options_.contiguous,
                            .cancelled = options_.cancelled});
    Groups groups = make_groups(problem, options_.group ? Grouping::all : Grouping::required_only);
    if (!groups.conflict.empty()) return std::nullopt;
    engine.groups_ = std::make_unique<GroupGraph>(problem, std::move(groups));
    return engine.aside(row, evaluations);
}

/// What a searcher finds by so many evaluations of its own; the search and its result are as before.
std::optional<Engine::Candidate> Engine::aside(const SearcherRow& row, std::int64_t evaluations) {
    const auto best = std::exchange(best_, std::nullopt);
    const auto last = std::exchange(last_, std::nullopt);
    const auto turn =
        std::exchange(turn_, Turn{.first = evaluations_, .last = evaluations_ + evaluations});
    const auto made = evaluations_;
    const auto notes = notes_;
    const auto searcher = std::exchange(searcher_, row.name);
    const auto progress = std::exchange(options_.progress, {});
    const auto guard = std::exchange(guard_, std::nullopt);
    const auto improvements = improvements_;
    random_ = Random::stream(options_.seed, 0);
    static_cast<void>(run(row));
    improvements_ = improvements;
    guard_ = guard;
    options_.progress = progress;
    searcher_ = searcher;
    notes_ = notes;
    evaluations_ = made;
    turn_ = turn;
    last_ = last;
    return std::exchange(best_, best);
}

/// Proven before any search.
SearchResult Engine::infeasible(std::string why) const {
    SearchResult result;
    result.status = Status::infeasible;
    result.scheduler = options_.scheduler;
    result.seed = options_.seed;
    result.shortage = std::move(why);
    result.elapsed = elapsed();
    return result;
}

/// A plan that is below it refutes it.
void Engine::compare_numerical_bound(SearchResult& result) const {
    const Time value = result.evaluation.value;
    if (!numerical_bound_ || numerical_bound_->value <= lower_bound_) return;
    if (result.evaluation.feasible() && value < numerical_bound_->value) {
        result.notes.push_back(fmt::format("{} says that no plan is below {}, which this plan is.",
                                           numerical_bound_->by, to_text(numerical_bound_->value)));
        return;
    }
    result.numerical_bound = numerical_bound_;
    if (result.evaluation.feasible()) {
        result.numerical_bound->gap = value / numerical_bound_->value - 1;
    }
}

SearchResult Engine::finish(Status status) {
    SearchResult result;
    result.status = status;
    result.lower_bound = lower_bound_;
    result.limited_by = limited_by_;
    result.contiguous = options_.contiguous;
    result.scheduler = options_.scheduler;
    result.seed = options_.seed;
    result.evaluations = evaluations_;
    result.notes = notes_;
    result.improving = improved_since(evaluations_ - evaluations_ / 4);
    if (guard_ && status == Status::budget_exhausted && elapsed() >= *guard_) {
        result.notes.push_back(fmt::format(
            "cut by the clock after {:.0f} s, so that another host may find another plan: "
            "--time-limit goes on, --evaluations {} gives the same everywhere.",
            std::chrono::duration<double>(*guard_).count(), evaluations_));
    }
    if (proposals_ > 0) {
        result.acceptance_rate =
            static_cast<double>(acceptances_) / static_cast<double>(proposals_);
    }
    assert(best_);  // the first evaluation is always granted, and every searcher asks for one
    result.strategy = best_->strategy;
    result.evaluation = best_->evaluation;
    result.searcher = best_->searcher;
    result.measured = best_->measured;
    if (measurements_) result.measurements = static_cast<std::int64_t>(measurements_->count());
    result.tasks = evaluator(0).task_count(best_->strategy);
    result.commit_order = evaluator(0).commit_order(best_->strategy);
    result.baselines.push_back(single_device_baseline());
    result.elapsed = elapsed();
    for (const std::string_view searcher : {"data-parallel", "expert"}) {
        result.baselines.push_back(tuned_baseline(searcher, status));
    }
    if (best_->evaluation.feasible() && best_->evaluation.value < lower_bound_) {
        throw std::logic_error(fmt::format(
            "the lower bound {} ps ({}) is above a plan of {} ps that was found by {}",
            lower_bound_.raw(), limited_by_, best_->evaluation.value.raw(), best_->searcher));
    }
    if (!best_->evaluation.feasible()) {
        result.status =
            status == Status::budget_exhausted ? Status::none_found : Status::infeasible;
        result.shortage = shortage_of(problem_, best_->strategy, best_->evaluation);
    } else if (lower_bound_ > Time{0}) {
        result.gap = best_->evaluation.value / lower_bound_ - 1;
    } else if (best_->evaluation.value == Time{0}) {
        result.gap = 0.0;
    }
    compare_numerical_bound(result);
    return result;
}

SearchResult search(const Problem& problem, EngineOptions options) {
    return Engine(problem, std::move(options)).run();
}

plan::Plan make_plan(const Problem& problem, const SearchResult& result) {
    return plan::make_plan(problem, result.strategy,
                           {.searcher = result.searcher,
                            .scheduler = result.scheduler,
                            .seed = result.seed,
                            .evaluations = result.evaluations,
                            .lower_bound = result.lower_bound});
}

}  // namespace partita::search
