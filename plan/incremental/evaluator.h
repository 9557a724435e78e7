// SPDX-License-Identifier: Apache-2.0
//
// What a strategy costs that changes a little at a time: for searches that go from neighbour to
// neighbour. The same figures as Evaluator gives with Scheduler::rank.
//
//     loads      is some device or link busy for longer than the limit allows, whatever the order?
//     schedule   does the change leave a pipeline for it? what does not is worse than any that does
//     tasks      what the change makes of the tasks around it (lowering.h)
//     timeline   what differs of it, as far as the limit (timeline.h)
//     memory     of what is quick enough, and only where all that is ever held would not fit together
//                (memory.h)
//
// Less memory above capacity goes before less time, so against a limit that overflows memory no
// time is too long, and nothing is rejected before its memory is known.
//
// Evaluated as a whole: what incremental lowering does not cover, and other objectives than the
// makespan.
//
// This folder holds what follows a strategy from change to change: keeps what lowering, schedule,
// timeline and memory were, and finds what differs, exactly. What they are is said in plan/, for
// whole strategies.
//
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/score.h"
#include "plan/incremental/lowering.h"
#include "plan/incremental/memory.h"
#include "plan/incremental/timeline.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tensors/lowering_cache.h"

namespace partita::plan {

/// How evaluations went, summed up.
struct EvaluatorEffort {
    std::int64_t evaluations = 0;
    std::int64_t rejected_by_parts = 0;  ///< by loads without the tensors around the change
    std::int64_t rejected_by_load = 0;   ///< by loads with them
    std::int64_t whole = 0;              ///< as a whole
    std::int64_t memory = 0;             ///< whose memory was looked at buffer by buffer
};

class IncrementalEvaluator {
public:
    explicit IncrementalEvaluator(const Problem& problem, const IncrementalLimits& limits = {});

    /// Goes on from this strategy, which must be legal.
    Score start(const Strategy& strategy);
    /// After a change of a legal strategy to a legal one; nullopt: it is worse than the limit, and
    /// rejected. Else it is pending until accept() or reject(), and must not go before.
    std::optional<Score> evaluate(const StrategyChange& change, const Score& limit);
    void accept();
    void reject();

    [[nodiscard]] const Strategy& strategy() const { return strategy_; }
    [[nodiscard]] const Score& score() const { return score_; }
    /// Of the strategy, a pending change not counted; 0 when it is evaluated as a whole.
    [[nodiscard]] std::size_t tasks() const;
    [[nodiscard]] const EvaluatorEffort& effort() const { return effort_; }
    /// Since the latest start(); null: evaluated as a whole.
    [[nodiscard]] const TimelineEffort* timeline_effort() const;

private:
    bool go_to(const Strategy& strategy);
    void lower();
    void put_resource_sets();
    std::optional<Score> evaluate_incrementally(const Score& limit);
    std::optional<Score> evaluate_whole(const Score& limit);
    [[nodiscard]] bool has_time(Time limit) const;
    std::optional<Score> evaluate_whole_instead(const Score& limit);
    std::optional<Score> rejected();
    [[nodiscard]] Bytes overflow();

    const Problem& problem_;
    IncrementalLimits limits_;
    LoweringCache cache_;
    std::unique_ptr<Evaluator> whole_;
    std::vector<Bytes> capacities_;
    Strategy strategy_;
    Score score_;
    std::unique_ptr<IncrementalLowering> lowering_;  ///< null: evaluated as a whole
    std::unique_ptr<IncrementalTimeline> timeline_;
    std::unique_ptr<IncrementalMemory> memory_;
    // Scratch.
    std::vector<Slot> order_;
    std::vector<OpChange> differing_;
    // The pending change.
    StrategyChange change_;
    std::optional<Score> pending_;
    bool is_whole_ = false;  ///< neither lowering nor timeline has it
    EvaluatorEffort effort_;
};

}  // namespace partita::plan
