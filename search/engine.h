// SPDX-License-Identifier: Apache-2.0
//
// The engine runs searchers, one after the other, within one budget:
//
//     start (--import-plan) ──▶ searcher 1 ──▶ searcher 2 ──▶ ... ──▶ best of all
//                                   └─ evaluate(batch) ─▶ one evaluator per thread, results by index
//
// Each may spend an equal share of what those before it have left; the last one all of it.
//
// Candidates compare by (memory overflow, value); of equals the first proposed stays. Proposals and
// comparisons happen in the order of their index, whatever thread priced them: the same seed and
// evaluation budget give the same result with any number of threads. A time limit or a cancellation
// cuts that sequence at an arbitrary place.
//
// `evaluations` counts the evaluations of a strategy that differs from the one before, those that a
// searcher remembers among them, and nothing else: the baselines are priced beside the search, outside
// count and budget.
//
// With EngineOptions::measure searchers that learn run their candidates (measure()), and the best is the one
// that took the least time; until one has run it is the best by value. Then nothing is proven.
//
// With EngineOptions::default_budget searches end by themselves, with the same plan on every host, and a guard of
// 60 s cuts those that do not, which is noted; where one of the searchers is endless there are 10 s for all.
//
// Optimal: when the value equals the lower bound, or a searcher proves it.
// Ends: when all searchers have ended, the value equals the bound, or the budget is spent. A running
// step is not interrupted between its evaluations.
// Threads: run() from one thread; it starts its own. Errors: UsageError for a start strategy that is
// not legal here, for an unknown searcher, and for one that learns without EngineOptions::learned;
// otherwise Status says what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/evaluation/evaluator.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "search/clock.h"
#include "search/group_graph.h"
#include "search/groups.h"
#include "search/measurements.h"
#include "search/parallel.h"
#include "search/random.h"
#include "search/searcher.h"

namespace partita::search {

class LearnedSearchers;
struct SearcherRow;

/// What the searcher `exact` asks: its own branch and bound, HiGHS, or one after the other (exact.h).
enum class ExactEngine : std::uint8_t { own, highs, both };

/// What a progress bar shows. Valid during the call only.
struct Progress {
    std::int64_t evaluations = 0;
    std::optional<Time> best;      ///< value of the best strategy that fits; none yet: nullopt
    std::optional<Time> measured;  ///< of that one, if it ran
    Bytes overflow;                ///< of the best strategy so far
    Time lower_bound;
    Duration elapsed{0};
    std::string_view searcher;  ///< the one at work
    std::string_view detail;    ///< what that one says of itself; "": nothing
    double done = 0;  ///< of a searcher that ends by itself: how much, 0 to 1; not known: 0
};

struct EngineOptions {
    std::vector<std::string> searchers{"auto"};  ///< names from searcher_table(), run in this order
    plan::Scheduler scheduler = plan::Scheduler::pct;
    std::optional<Duration> time_limit;       ///< >= 0; none: no limit
    std::optional<std::int64_t> evaluations;  ///< >= 0; none: no limit
    bool default_budget = false;  ///< the limits above are none, and the engine chooses; see above
    std::uint64_t seed = 1;
    int threads = 1;          ///< >= 1; 0 = one per core
    bool contiguous = false;  ///< the searchers propose contiguous plans only, bounds are of these
    ExactEngine exact_engine = ExactEngine::both;  ///< without HiGHS: as `own`
    bool group = true;                    ///< false: only what must share a device moves together
    std::optional<plan::Strategy> start;  ///< --import-plan
    std::function<void(const Progress&)> progress;  ///< after each batch, from the calling thread
    const std::atomic<bool>* cancelled = nullptr;   ///< set it (e.g. on Ctrl-C) to stop early
    const Clock* clock = nullptr;                   ///< null: steady_clock()
    /// Runs a strategy that fits on the machine itself; empty: nothing runs.
    Measure measure;
    LearnedSearchers* learned = nullptr;  ///< needed where one is named; of one search
};

/// What people would do without a search, tuned: the best that this searcher finds alone, with any number of
/// micro-batches and any schedule, whatever was asked for of the plan; the value is null when nothing fits, or where pricing it would take longer than the search.
struct Baseline {
    std::string name;           ///< of the searcher
    std::string configuration;  ///< e.g. "8 devices, ZeRO 2"
    std::optional<Time> value;
};

/// What a solver says that computes in floating point: good to know, and no proof.
struct NumericalBound {
    Time value;                 ///< no plan is below
    std::optional<double> gap;  ///< value of the plan / this - 1
    std::string by;             ///< "HiGHS 1.15.1"
};

struct SearchResult {
    Status status = Status::infeasible;  ///< never in_progress
    /// Complete, even when it does not fit; empty when no strategy can be legal (proven before any
    /// was tried: the constraints contradict, or there are more bytes to keep than memory).
    plan::Strategy strategy;
    plan::Evaluation evaluation;
    std::vector<plan::TaskId> commit_order;
    std::size_t tasks = 0;
    Time lower_bound;
    std::optional<double> gap;  ///< value / bound - 1; null when infeasible or undefined (bound 0)
    std::string limited_by;     ///< what the lower bound comes from (lower_bound.h)
    std::optional<NumericalBound> numerical_bound;  ///< where it is above the proven one
    std::string searcher;                           ///< the one that found the strategy
    plan::Scheduler scheduler = plan::Scheduler::pct;
    std::uint64_t seed = 1;
    std::int64_t evaluations = 0;
    std::optional<double> acceptance_rate;  ///< of searchers that accept and reject
    std::optional<Time> measured;           ///< the strategy took that long, if it ran
    std::int64_t measurements = 0;          ///< strategies that ran
    Duration elapsed{0};
    bool improving = false;  ///< Engine::improved_since() the last quarter of its evaluations began
    std::vector<Baseline> baselines;
    bool contiguous = false;  ///< as asked for: bound and status are of contiguous plans
    /// Without a plan: what is short and by how much, one sentence without file name.
    std::string shortage;
    /// What searchers found out about other plans, a sentence each.
    std::vector<std::string> notes;

    /// One that fits.
    [[nodiscard]] bool has_plan() const {
        return status != Status::infeasible && status != Status::none_found;
    }
};

/// Of a candidate.
struct Measured {
    plan::Evaluation evaluation;
    std::optional<Time> time;  ///< none: it does not fit, failed, or took too long
};

class Engine {
public:
    /// `problem` must outlive the engine. Throws UsageError as stated above.
    Engine(const plan::Problem& problem, EngineOptions options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Runs the searchers of the options, or these (of other libraries, which no table here knows).
    /// One call per engine.
    [[nodiscard]] SearchResult run();
    [[nodiscard]] SearchResult run(std::span<const SearcherRow> searchers);

    // What a searcher may use.

    [[nodiscard]] const plan::Problem& problem() const { return problem_; }
    [[nodiscard]] const EngineOptions& options() const { return options_; }
    [[nodiscard]] const GroupGraph& groups() const { return *groups_; }
    [[nodiscard]] Time lower_bound() const { return lower_bound_; }

    /// Of the searcher at work: a stream of its own, from seed and position in the list.
    [[nodiscard]] Random& random() { return random_; }

    /// True when no more evaluations will be granted to the searcher at work.
    [[nodiscard]] bool exhausted() const;

    /// How much of its budget the searcher at work has spent, of evaluations or of time, whichever is
    /// more; nullopt: there is no budget.
    [[nodiscard]] std::optional<double> spent() const;

    /// Evaluations of the first candidates, as many as the budget grants (all, when it has room),
    /// in the order of `candidates`, priced in parallel.
    std::vector<plan::Evaluation> evaluate(std::span<const plan::Strategy> candidates);
    /// One candidate; nullopt when the budget is spent.
    std::optional<plan::Evaluation> evaluate(const plan::Strategy& candidate);

    /// evaluate(), and those that fit run, one after the other; fewer when the time is up. The first
    /// of equals ran, the others took as long. Needs EngineOptions::measure.
    std::vector<Measured> measure(std::span<const plan::Strategy> candidates);

    [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }

    /// Is the best more than 1 % better than what was known after so many evaluations?
    [[nodiscard]] bool improved_since(std::int64_t evaluations) const;

    /// Of that strategy: what one evaluation costs, the same number on every host.
    [[nodiscard]] std::size_t task_count(const plan::Strategy& strategy) {
        return evaluator(0).task_count(strategy);
    }

    /// The best so far; null before the first evaluation.
    [[nodiscard]] const plan::Strategy* best() const { return best_ ? &best_->strategy : nullptr; }
    [[nodiscard]] const plan::Evaluation* best_evaluation() const {
        return best_ ? &best_->evaluation : nullptr;
    }

    /// Names whose proposals follow; a searcher that runs others calls it.
    void set_searcher(std::string_view name) { searcher_ = name; }

    /// What progress tells of the searcher at work, a few words, e.g. "1,200 samples/s". From then on,
    /// until the next searcher begins.
    void set_detail(std::string words) { detail_ = std::move(words); }

    /// For progress: how much of what a searcher does without a budget is done, 0 to 1.
    void set_done(double share) { done_ = share; }

    // For searchers that price by changes (walker.h).

    /// How many of these evaluations the budget grants; they count as made.
    [[nodiscard]] std::int64_t grant(std::int64_t wanted);
    /// Granted ones that were not made.
    void give_back(std::int64_t granted) { evaluations_ -= granted; }
    /// Prices strategies that were counted before, and takes the best.
    void confirm(std::span<const plan::Strategy> candidates);
    /// Calls work(0), work(1), ... on all threads, and waits.
    void parallel(std::size_t size, const std::function<void(std::size_t)>& work);
    /// Cancelled, or the time of the searcher at work is up.
    [[nodiscard]] bool interrupted() const;
    void count_acceptances(std::int64_t proposals, std::int64_t accepted);
    /// No plan is better than that; the caller has proven it, by what `limited_by` names.
    void raise_lower_bound(Time bound, std::string_view limited_by);
    /// A solver says so, which is no proof: changes neither lower bound nor status.
    void state_numerical_bound(Time bound, std::string_view by);
    /// What is left of the time limit for this searcher; nullopt: there is none.
    [[nodiscard]] std::optional<Duration> time_left() const;
    /// For the result's notes.
    void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

private:
    struct Candidate {
        plan::Strategy strategy;
        plan::Evaluation evaluation;
        std::string searcher;
        std::optional<Time> measured = std::nullopt;
    };

    /// A new best that fits.
    struct Improvement {
        std::int64_t evaluations = 0;  ///< made, with its own
        Time value;
    };

    /// What the searcher at work may spend: up to there, counted from the beginning of the search.
    struct Turn {
        std::int64_t first = 0;            ///< evaluations before it
        std::optional<std::int64_t> last;  ///< none: no limit
        Duration begin{0};
        std::optional<Duration> end;  ///< none: no limit
    };

    plan::Evaluator& evaluator(int worker);
    void choose_limits(std::span<const SearcherRow> searchers);
    void begin_turn(std::size_t searcher, std::size_t searchers);
    [[nodiscard]] Duration elapsed() const;
    [[nodiscard]] bool proven() const;
    [[nodiscard]] std::size_t granted(const std::vector<char>& fresh) const;
    void check_start() const;
    void offer(const plan::Strategy& strategy, const plan::Evaluation& evaluation);
    void measure_best();
    void report();
    [[nodiscard]] Status search(std::span<const SearcherRow> searchers);
    [[nodiscard]] Status run(const SearcherRow& row);
    [[nodiscard]] SearchResult infeasible(std::string why) const;
    [[nodiscard]] SearchResult finish(Status status);
    void compare_numerical_bound(SearchResult& result) const;
    [[nodiscard]] Baseline single_device_baseline();
    [[nodiscard]] Baseline tuned_baseline(std::string_view searcher, Status status);
    [[nodiscard]] std::optional<Candidate> aside(const SearcherRow& row, std::int64_t evaluations);
    [[nodiscard]] std::optional<Candidate> with_free_batch(const SearcherRow& row,
                                                           std::int64_t evaluations) const;

    const plan::Problem& problem_;
    EngineOptions options_;
    const Clock& clock_;
    Duration begin_;
    Workers workers_;
    std::vector<std::unique_ptr<plan::Evaluator>> evaluators_;  ///< one per worker
    std::unique_ptr<GroupGraph> groups_;
    Time lower_bound_;
    std::string limited_by_;
    std::optional<NumericalBound> numerical_bound_;
    Turn turn_;
    Random random_;
    std::string searcher_;
    std::string detail_;
    double done_ = 0;
    std::optional<Candidate> best_;
    std::vector<Improvement> improvements_;
    std::optional<Duration> guard_;  ///< no budget to plan with; ends the search all the same
    std::optional<Measurements> measurements_;
    std::optional<Candidate> last_;  ///< the latest evaluated; repeats of it are not counted
    std::int64_t evaluations_ = 0;
    std::int64_t proposals_ = 0;
    std::int64_t acceptances_ = 0;
    std::vector<std::string> notes_;
    bool learned_ = false;  ///< a searcher that learns had its turn
};

/// Engine(problem, options).run().
SearchResult search(const plan::Problem& problem, EngineOptions options);

/// plan::make_plan() of a result that has a strategy.
plan::Plan make_plan(const plan::Problem& problem, const SearchResult& result);

}  // namespace partita::search
