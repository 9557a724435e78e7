// SPDX-License-Identifier: Apache-2.0
//
// The timeline of a graph that changes a little at a time, exactly as if it were simulated anew.
//
//     timeline before   ────────┬──────────────┬───────────────────┬────────────────────────▶
//                               ▲ first task    ▲ all as before,     ▲ next window, its tasks
//                               │ that differs  │ but d later        │ shifted by d
//     after             ════════╪▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓╪════════════════════╪▓▓▓▓▓▓▓▓▓╪══════════════▶
//                        kept     simulated       spliced: + d         simulated  spliced: + d'
//
// The scheduling rule is that of simulate.h with keys that depend on no timeline: commit the ready task
// with the smallest (earliest feasible start, key). At any moment the future depends only on which
// tasks are committed and which of them still run, and for how long; so as soon as both agree with the
// timeline before, it can be followed, shifted, until the next task that differs.
//
// A limit ends an evaluation as soon as it is proved to be exceeded: what is left to do on some
// resource does not fit any more. The answer is the same as that of a whole simulation.
//
// Source: the delta simulation of Jia et al., MLSys 2019, section 5.3, which restarts but does not
// splice; conservative cut-offs as in branch and bound.
//
// Cost: proportional to what is simulated, plus what is rebuilt when a change is accepted.
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/units.h"
#include "plan/slot_graph.h"

namespace partita::plan {

/// How much work evaluations were, summed up.
struct TimelineEffort {
    std::int64_t evaluations = 0;
    std::int64_t rejected_by_load = 0;  ///< before anything was simulated
    std::int64_t rejected_early = 0;    ///< later, but before the end
    std::int64_t simulated = 0;         ///< commits
    std::int64_t spliced = 0;           ///< times that the timeline before was followed
};

class IncrementalTimeline {
public:
    IncrementalTimeline(int resource_count, Csr<std::int32_t> lanes);

    /// For new lanes only; everything else changes through evaluate().
    [[nodiscard]] SlotGraph& graph() { return graph_; }

    /// The makespan after a change of these slots; nullopt: more than `limit`. The change is pending
    /// until accept() or reject(). Throws std::logic_error when the graph becomes cyclic.
    std::optional<Time> evaluate(std::span<const SlotTask> tasks, Time limit = Time::max());
    /// After an evaluation that returned a time.
    void accept();
    void reject();

    [[nodiscard]] Time makespan() const { return Time(makespan_); }
    /// All tasks in the order of their commits, and their starts.
    [[nodiscard]] std::span<const Slot> order() const { return order_; }
    [[nodiscard]] Time start(Slot slot) const { return Time(starts_[at(position(slot))]); }
    [[nodiscard]] const TimelineEffort& effort() const { return effort_; }

private:
    static constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

    /// A running task.
    struct Running {
        std::int64_t end = 0;
        Slot slot = -1;
        friend auto operator<=>(const Running&, const Running&) = default;
    };
    /// A ready task in its lane's queue, or a lane by its first one.
    struct Ready {
        std::uint64_t key = 0;
        std::int32_t slot = -1;  ///< of the lane: its number
        friend bool operator>(const Ready& a, const Ready& b) { return a.key > b.key; }
    };
    /// What is going on right before the commit at a position.
    struct Checkpoint {
        std::vector<Running> running;
        std::vector<Slot> ready;
        std::vector<std::int64_t> done;  ///< per resource: durations of what is committed
    };
    /// A piece of the new timeline: commits of the log, or positions of the old one, shifted.
    struct Segment {
        std::int32_t begin = 0;
        std::int32_t end = 0;
        std::int64_t shift = 0;
        bool simulated = false;
    };
    struct Lane {
        std::vector<Ready> ready;     ///< heap
        std::int32_t waits_for = -1;  ///< resource among whose waiters it is
        std::int32_t woken_by = -1;   ///< resource that is its to take, or the next waiter's
        bool used = false;            ///< since the latest restart
    };
    /// One slot.
    struct alignas(32) Mark {
        /// In the accepted timeline; none: never. During an evaluation of changed slots before the
        /// restart: always, or never.
        std::int64_t end = kNever;
        std::int32_t position = -1;    ///< in the accepted timeline; -1: none
        std::uint32_t epoch = 0;       ///< of the restart for which `waiting` holds
        std::int32_t waiting = 0;      ///< predecessors that are not complete
        std::int32_t changed = -1;     ///< index of the change, or -1
        std::uint32_t evaluation = 0;  ///< for which `changed` holds
    };
    /// One changed slot.
    struct Window {
        std::int32_t position = -1;  ///< of the old task; -1: none
        std::int32_t relevant = -1;  ///< no new task is ready before the commit here
        std::uint32_t restart = 0;   ///< in which the new one was committed; 0: not yet
    };

    static constexpr std::int32_t kStride = 32;  ///< positions between checkpoints
    static constexpr std::int32_t kWorthAJump = 48;

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] std::int32_t position(Slot slot) const { return marks_[at(slot)].position; }
    [[nodiscard]] std::int32_t changed_index(Slot slot) const {
        const Mark& mark = marks_[at(slot)];
        return mark.evaluation == evaluation_ ? mark.changed : -1;
    }
    [[nodiscard]] bool is_complete_at_restart(Slot slot) const {
        const std::int64_t end = marks_[at(slot)].end;
        if (end != restart_time_) return end < restart_time_;
        return position(slot) < restart_position_;  // it may take no time
    }

    void find_windows();
    std::int32_t relevant_of(std::size_t index);
    [[nodiscard]] bool only_lasts_longer(std::size_t index) const;
    std::optional<std::int64_t> simulate();
    void restart(std::int32_t position, std::int64_t shift);
    void set_changed_ends();
    void forget_change();
    void clear_simulation();
    void restore(std::int64_t shift);
    void replay_to_restart(std::int64_t shift);
    void find_changed_ready();
    void count_done();
    void add_done(std::int32_t lane, std::int64_t duration);
    void mark_ready(Slot slot);
    std::int32_t incomplete_predecessors(Slot slot) const;
    void add_ready(Slot slot);
    void offer(std::int32_t lane);
    void wake(std::int32_t resource);
    void wake(std::int32_t lane, std::int32_t resource);
    void wait(std::int32_t lane, std::int32_t resource);
    void occupy(Slot slot, std::int64_t end);
    void add_running(Running task);
    void complete_due();
    void complete(Slot slot);
    [[nodiscard]] Slot next_commit();
    [[nodiscard]] bool fits(std::int32_t lane) const;
    [[nodiscard]] bool all_fit() const;
    void commit(Slot slot);
    enum class Splice : std::uint8_t { no, jumped, finished };
    Splice try_splice(Slot next);
    [[nodiscard]] bool windows_agree(std::int32_t position) const;
    [[nodiscard]] bool running_agree(std::int32_t position, std::int64_t shift) const;
    void close_log();
    void rebuild();
    void check_settled() const;

    SlotGraph graph_;

    // The accepted timeline.
    std::int64_t makespan_ = 0;
    std::vector<Slot> order_;
    std::vector<std::int64_t> starts_;  ///< by position, as all of these
    std::vector<std::int64_t> ends_;
    std::vector<std::int64_t> ends_before_;      ///< largest end before
    std::vector<std::int64_t> ends_after_;       ///< largest end from here on
    std::vector<std::uint32_t> running_counts_;  ///< right before the commit
    std::vector<Checkpoint> checkpoints_;        ///< at positions 0, kStride, ...

    // The evaluation.
    std::uint32_t evaluation_ = 0;
    std::int64_t limit_ = 0;
    std::vector<Window> windows_;            ///< per changed slot
    std::vector<std::int32_t> relevant_;     ///< positions, rising
    std::vector<std::int32_t> old_changed_;  ///< positions of changed slots, rising
    std::vector<Segment> segments_;
    std::vector<Slot> log_;
    std::vector<std::int64_t> log_starts_;
    std::size_t log_closed_ = 0;  ///< commits that are in segments
    std::int64_t latest_end_ = 0;
    bool pending_ = false;

    // The simulation since the latest restart.
    std::uint32_t epoch_ = 0;
    std::int64_t now_ = 0;
    std::int32_t restart_position_ = 0;
    std::int64_t restart_time_ = 0;  ///< of the old timeline there
    std::size_t committed_ = 0;      ///< tasks that are there anew, restarts included
    std::int32_t unchanged_committed_ = 0;
    std::int32_t largest_position_ = -1;  ///< of unchanged committed tasks
    std::vector<Mark> marks_;             ///< per slot
    std::vector<Running> running_;        ///< the first to end last; they are few
    std::vector<Lane> lanes_;
    std::vector<std::int32_t> used_lanes_;
    std::vector<Ready> candidates_;         ///< heap of lanes that might start something now
    std::vector<std::int64_t> busy_until_;  ///< per resource
    std::vector<std::vector<std::int32_t>> waiters_;  ///< lanes per resource
    std::vector<std::int64_t> done_;        ///< per resource: durations of what is committed
    std::vector<std::int32_t> waited_for_;  ///< resources that have had waiters
    TimelineEffort effort_;
};

}  // namespace partita::plan
