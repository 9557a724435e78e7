// SPDX-License-Identifier: Apache-2.0
//
// The timeline of a graph that changes a little at a time, exactly as if it were simulated anew.
//
//     timeline before   ────────┬──────────────┬───────────────────┬────────────────────────▶
//                               ▲ first task    ▲ all as before,     ▲ next window, its tasks
//                               │ that differs  │ but d later        │ shifted by d
//     after             ════════╪▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓╪════════════════════╪▓▓▓▓▓▓▓▓▓╪══════════════▶
//                        kept     replayed        spliced: + d         replayed    spliced: + d'
//
// The scheduling rule is that of simulate.h with keys that depend on no timeline: commit the ready task
// with the smallest (earliest feasible start, key). Replaying places tasks in the order of the timeline
// before, each as early as its predecessors and resources let it, without asking what else is ready; then
// it checks that the rule would have kept the task waiting until then (resource_queues.h). Where it would
// not, because something goes first now that did not before, what was placed on its resources since then is
// taken back, with all that depends on it:
//
//     order before    a  b  c  d  e  f          c is ready earlier than it was, and goes before b:
//     replayed        a  b  c!                  take b back
//                     a  c  b  d  e  f
//
// What is taken back, new tasks, and what waits for either is put off, and placed when its turn by time has
// come (lane_queues.h). For a while after the order was wrong all tasks are. Splicing: as soon as tasks start
// d later than before, everything else has ended, and what is ready has been kept waiting rightly, the timeline
// before is followed, until the next task that differs.
//
// A limit ends an evaluation as soon as it is proved to be exceeded: what is left to do on some
// resource does not fit any more. The answer is the same as that of a whole simulation.
//
// Source: the delta simulation of Jia et al., MLSys 2019, section 5.3, which propagates changes through
// queues in the order before, and orders these by ready time; conservative cut-offs as in branch and bound.
//
// Cost: proportional to what is replayed, plus what is rebuilt when a change is accepted: the timeline
// from the first task that differs on. Everything takes time: durations are positive.
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/units.h"
#include "plan/lane_queues.h"
#include "plan/resource_queues.h"
#include "plan/slot_graph.h"

namespace partita::plan {

/// How much work evaluations were, summed up.
struct TimelineEffort {
    std::int64_t evaluations = 0;
    std::int64_t rejected_by_load = 0;  ///< before anything was replayed
    std::int64_t rejected_early = 0;    ///< later, but before the end
    std::int64_t replayed = 0;          ///< tasks that were placed, again if taken back
    std::int64_t taken_back = 0;        ///< times that the order before was not that of the rule
    std::int64_t spliced = 0;           ///< times that the timeline before was followed
    std::int64_t whole = 0;  ///< simulated anew: the first, and where replaying goes in circles
};

class IncrementalTimeline {
public:
    IncrementalTimeline(int resource_count, Csr<std::int32_t> lanes);
    IncrementalTimeline(const IncrementalTimeline&) = delete;
    IncrementalTimeline& operator=(const IncrementalTimeline&) = delete;

    /// For new lanes only; everything else changes through evaluate().
    [[nodiscard]] SlotGraph& graph() { return graph_; }

    /// The makespan after a change of these slots; nullopt: more than `limit`. The change is pending
    /// until accept() or reject(). Throws std::logic_error when the graph becomes cyclic.
    std::optional<Time> evaluate(std::span<const SlotTask> tasks, Time limit = Time::max());
    /// After an evaluation that returned a time.
    void accept();
    void reject();

    [[nodiscard]] Time makespan() const { return Time(makespan_); }
    /// All tasks by (start, key): the order of their commits.
    [[nodiscard]] std::span<const Slot> order() const { return order_; }
    /// The same with the change that is pending.
    void write_pending_order(std::vector<Slot>& order);
    [[nodiscard]] Time start(Slot slot) const {
        return Time(starts_[at(marks_[at(slot)].position)]);
    }
    [[nodiscard]] const TimelineEffort& effort() const { return effort_; }

private:
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int32_t kStride = 32;      ///< positions between checkpoints
    static constexpr std::int32_t kWorthAJump = 64;  ///< positions
    static constexpr int kLookAhead = 16;            ///< positions
    static constexpr int kLookAgain = 6;  ///< steps until it is tried again where it was in vain
    static constexpr int kByTime = 48;    ///< tasks, at first, and half as many more each time

    /// One slot. `end`, `position`: in the accepted timeline; the rest holds in one evaluation.
    struct alignas(32) Mark {
        std::int64_t end = kNever;
        std::int64_t new_end = kNever;  ///< kNever: not placed
        std::int32_t position = -1;
        std::uint32_t evaluation = 0;  ///< in which it was placed, put off or changed
        std::uint32_t feeds = 0;       ///< evaluation in which something put off waits for it
        std::int32_t waits = -1;       ///< put off: for so many that are not placed; -1: it is not
    };
    /// One changed slot, in times of the accepted timeline.
    struct Window {
        std::int64_t old_start = kNever;  ///< kNever: there was no task
        std::int64_t relevant = kNever;   ///< the new task is not ready before; kNever: it is none
    };
    /// A piece of the new timeline: tasks of the log, or positions of the old one, shifted.
    struct Segment {
        std::int32_t begin = 0;
        std::int32_t end = 0;
        std::int64_t shift = 0;
        bool replayed = false;
    };
    /// A task and when it would start if it were placed next; kNever: it needs what is not placed.
    using Choice = LaneQueues::Choice;
    struct Started {
        Slot slot = -1;
        std::int64_t start = 0;
    };
    /// Something that should have started, and when.
    struct Violation {
        Slot slot = -1;
        std::int64_t moment = 0;
    };

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] const Mark& mark(Slot slot) const { return marks_[at(slot)]; }
    [[nodiscard]] bool is_new(Slot slot) const { return mark(slot).evaluation == evaluation_; }
    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(order_.size()); }
    [[nodiscard]] std::int32_t changed_index(Slot slot) const { return changed_[at(slot)]; }

    // incremental_timeline.cpp: the accepted timeline
    void check_settled() const;
    void forget_change();
    void sort_log();
    void write_new(std::int32_t from);
    void keep(std::int32_t from);
    void keep_ends_after();
    void simulate_whole();

    // incremental_windows.cpp: what of it a change concerns, and what of it can be followed
    void find_windows();
    std::int64_t relevant_of(std::size_t index);
    [[nodiscard]] bool only_lasts_longer(std::size_t index) const;
    void restart(std::int64_t relevant, std::int64_t shift);
    void find_free_and_rest();
    void put_off_changed();
    enum class Splice : std::uint8_t { no, taken_back, jumped, finished };
    Splice try_splice(std::int64_t start);
    [[nodiscard]] bool windows_agree() const;
    template <class Visit>
    void for_each_ready(const Visit& visit);
    std::optional<Violation> find_violation(std::int64_t until);
    void go_by_time();
    [[nodiscard]] std::optional<Violation> violation_of(Slot slot, std::int64_t until) const;
    void close_log();

    // incremental_replay.cpp: placing tasks
    enum class Step : std::uint8_t { more, finished, exceeded };
    bool replay();
    Step step();
    Choice next_in_order();
    void pass(Slot slot);
    [[nodiscard]] Choice choice_of(Slot slot) const;
    bool look_ahead(Choice& next, std::int64_t bound);
    std::optional<Choice> first_waiting(const Choice& before);
    Step place(const Choice& choice);
    void follow_run(std::int64_t start);
    [[nodiscard]] std::int64_t end_of(Slot slot) const;
    [[nodiscard]] std::int64_t ready_time(Slot slot) const;
    void put_off(Slot slot);
    void wait_in_lane(Slot slot);
    void count_placed(Slot slot, std::int64_t end);
    void take_back(const Violation& violation);
    void take_back_from(std::int32_t resource, std::int64_t start);
    void take_back_one(Slot slot);
    void check_all_placed() const;

    SlotGraph graph_;

    // The accepted timeline, by position.
    std::int64_t makespan_ = 0;
    std::vector<Slot> order_;
    std::vector<std::int64_t> starts_;
    std::vector<std::int64_t> ends_before_;     ///< largest end before
    std::vector<std::int64_t> ends_after_;      ///< largest end from here on
    std::vector<std::int32_t> ready_at_;        ///< all its predecessors are before this position
    std::vector<std::int32_t> least_ready_at_;  ///< of kStride positions each
    /// At positions 0, kStride, ..., per resource: until when it is occupied, and for how long it was.
    std::vector<std::int64_t> free_;
    std::vector<std::int64_t> done_;
    std::vector<Mark> marks_;            ///< per slot
    std::vector<std::int32_t> changed_;  ///< per slot: index of the change, or -1

    // The evaluation.
    std::uint32_t evaluation_ = 0;
    std::int64_t limit_ = 0;
    std::vector<Window> windows_;         ///< per changed slot
    std::vector<std::int64_t> relevant_;  ///< times before that matter to changed tasks, rising
    std::vector<Segment> segments_;
    std::vector<Started> log_;    ///< of segments that are closed
    bool log_is_sorted_ = false;  ///< by (start, key), in each segment
    std::int64_t new_makespan_ = 0;
    bool pending_ = false;

    // The replay since the latest restart.
    ResourceQueues queues_;
    std::int32_t restart_position_ = 0;
    std::int64_t shift_ = 0;
    std::int64_t time_ = 0;         ///< of the restart; everything before is settled
    std::int32_t cursor_ = 0;       ///< position of the old timeline that comes next
    std::vector<Slot> early_;       ///< that were placed before it, though they came later
    LaneQueues waiting_;            ///< what was put off and has all that it needs
    std::int64_t settled_end_ = 0;  ///< largest end of what began before the restart
    std::int64_t latest_end_ = 0;   ///< no task that is placed ends later
    std::vector<Slot> put_off_;     ///< that were, some more than once
    std::int32_t behind_ = 0;       ///< unchanged tasks before the cursor that are not placed
    int by_time_next_ = kByTime;    ///< when it happens the next time
    int by_time_ = 0;               ///< so many tasks more are placed by time alone
    // Since some position all tasks start `run_shift_` later, and those before end by ...
    bool in_run_ = false;
    std::int64_t run_shift_ = 0;
    std::int64_t run_old_end_ = 0;  ///< in the timeline before
    std::int64_t run_new_end_ = 0;
    std::int32_t looked_ahead_at_ = -1;  ///< position from which nothing was found
    int look_again_in_ = 0;              ///< steps
    std::int32_t next_try_ = 0;          ///< position before which no splice is tried again
    std::vector<Started> started_;       ///< scratch
    std::vector<Started> taken_back_;    ///< the same, as what follows
    std::vector<std::int64_t> cuts_;     ///< per resource
    std::vector<std::int32_t> cut_resources_;
    std::vector<std::int64_t> scratch_free_;  ///< per resource
    std::vector<std::int64_t> scratch_rest_;
    TimelineEffort effort_;
};

}  // namespace partita::plan
