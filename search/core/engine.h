// SPDX-License-Identifier: Apache-2.0
//
// The engine of one search: budget, seed, threads, statistics, and the best so far. Searchers are
// given their turns by whoever runs the search (search_run.h), and in a turn ask for what they
// need:
//
//     begin_turn(i, n) ─▶ run(searcher) ─▶ step ─▶ step ─▶ ...
//                                           └─ evaluate(batch) ─▶ one evaluator per thread, results by index
//
// Each turn may spend an equal share of what those before it have left; the last one all of it.
//
// Candidates compare by (memory overflow, value); of equals the first proposed stays. Proposals and
// comparisons happen in the order of their index, whatever thread priced them: the same seed and
// evaluation budget give the same result with any number of threads. A time limit or a cancellation
// cuts that sequence at an arbitrary place.
//
// `evaluations` counts the evaluations of a strategy that differs from the one before, those that a
// searcher remembers among them, and nothing else.
//
// With EngineOptions::measure searchers that learn run their candidates (measure()), and the best
// is the one that took the least time; until one has run it is the best by value. Then nothing is
// proven.
//
// Ends: a turn when its searcher has ended, the value equals the bound, or its budget is spent. A
// running step is not interrupted between its evaluations.
// Threads: one that calls; the pool has its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"
#include "search/core/evaluator_pool.h"
#include "search/core/measurements.h"
#include "search/core/parallel_config.h"
#include "search/core/searcher.h"
#include "search/support/clock.h"
#include "search/support/random.h"

namespace partita::search {

class LearnedSearchers;

/// What the searcher `exact` asks: its own branch and bound, HiGHS, or one after the other
/// (exact.h).
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
    bool default_budget = false;              ///< no limits above: those of search_run.h
    std::uint64_t seed = 1;
    int threads = 1;          ///< >= 1; 0 = one per core
    bool contiguous = false;  ///< the searchers propose contiguous plans only, bounds are of these
    ExactEngine exact_engine = ExactEngine::both;  ///< without HiGHS: as `own`
    bool group = true;                    ///< false: only what must share a device moves together
    ParallelConfig parallel;              ///< what the searcher `grids` keeps to
    std::optional<plan::Strategy> start;  ///< --import-plan
    std::function<void(const Progress&)> progress;  ///< after each batch, from the calling thread
    const std::atomic<bool>* cancelled = nullptr;   ///< set it (e.g. on Ctrl-C) to stop early
    const Clock* clock = nullptr;                   ///< null: steady_clock()
    /// Runs a strategy that fits on the machine itself; empty: nothing runs.
    Measure measure;
    LearnedSearchers* learned = nullptr;  ///< needed where one is named; of one search
};

/// What a solver says that computes in floating point: good to know, and no proof.
struct NumericalBound {
    Time value;                 ///< no plan is below
    std::optional<double> gap;  ///< value of the plan / this - 1
    std::string by;             ///< "HiGHS 1.15.1"
};

/// What was evaluated, and who proposed it.
struct Candidate {
    plan::Strategy strategy;
    plan::Evaluation evaluation;
    std::string searcher;
    std::optional<Time> measured = std::nullopt;  ///< it took that long, if it ran
    std::string configuration = {};  ///< what its searcher calls it, "dp=2,tp=4"; "": nothing
};

/// No plan is below, by what `limited_by` names.
struct Bound {
    Time value;
    std::string limited_by;
};

/// Of a candidate.
struct Measured {
    plan::Evaluation evaluation;
    std::optional<Time> time;  ///< none: it does not fit, failed, or took too long
};

class Engine {
public:
    /// All but the options must outlive the engine. `begin`: of the search, by the clock of the
    /// options.
    Engine(EngineOptions options, EvaluatorPool& pool, const GroupGraph& groups, Bound bound,
           Duration begin);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // What whoever runs the search does.

    /// The next turn is number `searcher` of so many.
    void begin_turn(std::size_t searcher, std::size_t searchers);
    /// Steps until the searcher has ended, its budget is spent, or the best is proven. It is not
    /// made where it would have no step. Once per turn.
    [[nodiscard]] Status run(const SearcherRow& row);
    /// No clock but this one, for who asked for no budget: it ends the search, and is no budget to
    /// plan with.
    void set_guard(Duration guard) { guard_ = guard; }
    /// The guard, if it is over.
    [[nodiscard]] std::optional<Duration> cut_after() const {
        return guard_ && elapsed() >= *guard_ ? guard_ : std::nullopt;
    }
    [[nodiscard]] bool proven() const;
    [[nodiscard]] Duration elapsed() const;

    // What a searcher may use.

    [[nodiscard]] const plan::Problem& problem() const { return pool_.problem(); }
    [[nodiscard]] const EngineOptions& options() const { return options_; }
    [[nodiscard]] const GroupGraph& groups() const { return groups_; }
    [[nodiscard]] Time lower_bound() const { return bound_.value; }

    /// Of the searcher at work: a stream of its own, from seed and position in the list.
    [[nodiscard]] Random& random() { return random_; }

    /// True when no more evaluations will be granted to the searcher at work.
    [[nodiscard]] bool exhausted() const;

    /// How much of its budget the searcher at work has spent, of evaluations or of time, whichever
    /// is more; nullopt: there is no budget.
    [[nodiscard]] std::optional<double> spent() const;

    /// Evaluations of the first candidates, as many as the budget grants (all, when it has room),
    /// in the order of `candidates`, priced in parallel.
    std::vector<plan::Evaluation> evaluate(std::span<const plan::Strategy> candidates);
    /// One candidate; nullopt when the budget is spent.
    std::optional<plan::Evaluation> evaluate(const plan::Strategy& candidate);

    /// How many strategies are worth foreseeing: as many as there are threads, and four at most,
    /// because each takes an evaluator, which of a thousand devices holds hundreds of MB.
    [[nodiscard]] std::size_t foresight() const {
        constexpr int kMostForeseen = 4;
        return static_cast<std::size_t>(std::min(pool_.threads(), kMostForeseen));
    }
    /// For searchers that propose one after the other, but know what comes next whatever the first
    /// one's value is: while the first of these is not known, prices the first foresight() of them
    /// in parallel, for evaluate() to find. That and how it counts stay the same.
    void foresee(std::span<const plan::Strategy* const> next);

    /// evaluate(), and those that fit run, one after the other; fewer when the time is up. The
    /// first of equals ran, the others took as long. Needs EngineOptions::measure.
    std::vector<Measured> measure(std::span<const plan::Strategy> candidates);

    [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
    /// That evaluate() has simulated: what it took, whatever the host.
    [[nodiscard]] std::int64_t evaluated_tasks() const { return evaluated_tasks_; }

    /// Is the best more than 1 % better than what was known after so many evaluations?
    [[nodiscard]] bool improved_since(std::int64_t evaluations) const;

    /// Of that strategy: what one evaluation costs, the same number on every host.
    [[nodiscard]] std::int64_t task_count(const plan::Strategy& strategy) {
        return pool_.evaluator(0).task_count(strategy);
    }

    /// The best so far; null before the first evaluation.
    [[nodiscard]] const Candidate* best_candidate() const { return best_ ? &*best_ : nullptr; }
    [[nodiscard]] const plan::Strategy* best() const { return best_ ? &best_->strategy : nullptr; }
    [[nodiscard]] const plan::Evaluation* best_evaluation() const {
        return best_ ? &best_->evaluation : nullptr;
    }

    /// Where a searcher that goes on from others may start: what was the best at some times of this
    /// turn, each better than the one before.
    [[nodiscard]] const std::vector<plan::Strategy>& starts() const { return starts_; }
    /// The best so far becomes one.
    void add_start();
    void forget_starts() { starts_.clear(); }

    /// Names whose proposals follow; a searcher that runs others calls it.
    void set_searcher(std::string_view name) { searcher_ = name; }

    /// What progress tells of the searcher at work, a few words, e.g. "1,200 samples/s". From then
    /// on, until the next searcher begins.
    void set_detail(std::string words) { detail_ = std::move(words); }

    /// For progress: how much of what a searcher does without a budget is done, 0 to 1.
    void set_done(double share) { done_ = share; }

    // For searchers that price by changes (chain_runner.h).

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
    /// What people call the best so far, until another one is better.
    void describe_best(std::string configuration) {
        best_->configuration = std::move(configuration);
    }
    /// For the result's notes.
    void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

    // For the result.

    [[nodiscard]] const Bound& bound() const { return bound_; }
    [[nodiscard]] const std::optional<NumericalBound>& numerical_bound() const {
        return numerical_bound_;
    }
    /// Of searchers that accept and reject.
    [[nodiscard]] std::optional<double> acceptance_rate() const;
    [[nodiscard]] std::int64_t measurements() const;
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
    /// A searcher that learns had its turn.
    [[nodiscard]] bool learned() const { return learned_; }

private:
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

    [[nodiscard]] std::size_t granted(const std::vector<char>& fresh) const;
    [[nodiscard]] const plan::Evaluation* foreseen(const plan::Strategy& strategy) const;
    void offer(const plan::Strategy& strategy, const plan::Evaluation& evaluation);
    void measure_best();
    void report();

    EngineOptions options_;
    EvaluatorPool& pool_;
    const GroupGraph& groups_;
    const Clock& clock_;
    Duration begin_;
    Bound bound_;
    std::optional<NumericalBound> numerical_bound_;
    Turn turn_;
    Random random_;
    std::string searcher_;
    std::string detail_;
    double done_ = 0;
    std::optional<Candidate> best_;
    std::vector<plan::Strategy> starts_;
    std::vector<Improvement> improvements_;
    std::optional<Duration> guard_;  ///< no budget to plan with; ends the search all the same
    std::optional<Measurements> measurements_;
    /// What was priced before it was asked for.
    struct Foreseen {
        plan::Strategy strategy;
        plan::Evaluation evaluation;
    };
    std::vector<Foreseen> foreseen_;
    std::optional<Candidate> last_;  ///< the latest evaluated; repeats of it are not counted
    std::int64_t evaluations_ = 0;
    std::int64_t evaluated_tasks_ = 0;
    std::int64_t proposals_ = 0;
    std::int64_t acceptances_ = 0;
    std::vector<std::string> notes_;
    bool learned_ = false;  ///< a searcher that learns had its turn
};

}  // namespace partita::search
