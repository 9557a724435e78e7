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
// The scheduling rule is that of plan/simulation/simulate.h with keys that depend on no timeline:
// commit the ready task with the smallest (earliest feasible start, key). Replaying simulates it
// from one end of a task to the next, from the state of the timeline before at the first time that
// matters to a changed task:
//
//     tasks end     their resources are free, and what waited for nothing else is ready
//     splice?       are those that run the same as before, each d later, and what has started the same?
//                   And do hosts (host_launches.h) make no difference?
//     tasks start   the ready ones that can (ready_queues.h)
//
// Splicing is exact, as nothing starts before now: what comes depends on what has started, and on
// what runs for how much longer. Then the timeline before is followed, d later, until the next task
// that differs.
//
// A limit ends an evaluation as soon as it is proved to be exceeded: what is left to do on some
// resource does not fit any more. The answer is the same as that of a whole simulation.
//
// Source: the delta simulation of Jia et al., MLSys 2019, section 5.3; conservative cut-offs as in
// branch and bound.
//
// Cost: proportional to what is replayed, plus what is rebuilt when a change is accepted: the
// timeline from the first task that differs on. Everything takes time: durations are positive.
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/incremental/host_launches.h"
#include "plan/incremental/ready_queues.h"
#include "plan/incremental/slot_graph.h"

namespace partita::plan {

/// How much work evaluations were, summed up.
struct TimelineEffort {
    std::int64_t evaluations = 0;
    std::int64_t rejected_by_load = 0;  ///< before anything was replayed
    std::int64_t rejected_early = 0;    ///< later, but before the end
    std::int64_t replayed = 0;          ///< tasks that were started again
    std::int64_t spliced = 0;           ///< times that the timeline before was followed
};

class IncrementalTimeline {
public:
    /// `hosts`: as in TaskGraph.
    IncrementalTimeline(int resource_count, Csr<std::int32_t> resource_sets,
                        Csr<std::int32_t> hosts = {});
    IncrementalTimeline(const IncrementalTimeline&) = delete;
    IncrementalTimeline& operator=(const IncrementalTimeline&) = delete;

    /// For new resource sets only; everything else changes through evaluate().
    [[nodiscard]] SlotGraph& graph() { return graph_; }

    /// The makespan after a change of these slots; nullopt: more than `limit`. The change is
    /// pending until accept() or reject(). Throws std::logic_error when the graph becomes cyclic.
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
    static constexpr std::int32_t kPause = 8;        ///< positions between attempts to splice

    /// A task waits for others, runs, or has ended. Small.
    class Progress {
    public:
        static constexpr Progress waits_for(std::int32_t tasks) { return Progress(tasks); }
        static constexpr Progress runs() { return Progress(-1); }
        static constexpr Progress ended() { return Progress(-2); }

        [[nodiscard]] bool is_ready() const { return state_ == 0; }
        [[nodiscard]] bool has_ended() const { return *this == ended(); }
        /// One of those it waits for has ended.
        void count_down() { --state_; }

        friend bool operator==(Progress, Progress) = default;

    private:
        constexpr explicit Progress(std::int32_t state) : state_(state) {}

        std::int32_t state_;
    };
    /// One slot. Small, because it is needed wherever in memory the next task is.
    struct alignas(16) Mark {
        std::int32_t position = -1;  ///< in the accepted timeline, if it is there
        std::int32_t change = -1;    ///< in the order of the graph's changes, if it changes
        std::uint32_t restart = 0;   ///< since which `progress` is known
        Progress progress = Progress::waits_for(0);

        [[nodiscard]] bool is_accepted() const { return position >= 0; }
        [[nodiscard]] bool is_changed() const { return change >= 0; }
    };

    /// One changed slot.
    struct Window {
        std::optional<std::int64_t> old_start;  ///< in the accepted timeline, if it was there
        bool has_started = false;               ///< the new task
        bool waits_alike = false;               ///< it matters only when it starts
    };
    /// A piece of the new timeline: tasks of the log, or positions of the old one, shifted.
    struct Segment {
        std::int32_t begin = 0;
        std::int32_t end = 0;
        std::int64_t shift = 0;
        bool replayed = false;
    };
    struct Started {
        Slot slot = -1;
        std::int64_t start = 0;
    };
    /// A task of the new timeline.
    struct Placed {
        std::int64_t start = 0;
        std::int64_t end = 0;
        Slot slot = -1;
        std::int32_t resource_set = -1;
        std::int32_t launch = 0;
        std::optional<std::int32_t> ready_at;  ///< nullopt: to be found
    };
    /// A task that runs, or a host that launches.
    struct Running {
        std::int64_t end = 0;
        Slot slot = -1;  ///< of device d's host: -1 - d

        [[nodiscard]] bool is_host() const { return slot < 0; }
        [[nodiscard]] std::int32_t device() const { return -1 - slot; }
    };

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] const Mark& mark(Slot slot) const { return marks_[at(slot)]; }
    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(order_.size()); }
    [[nodiscard]] std::size_t blocks() const { return (order_.size() + kStride - 1) / kStride; }
    /// Of an accepted task.
    [[nodiscard]] std::int64_t end_of(Slot slot) const { return ends_[at(mark(slot).position)]; }

    // timeline.cpp: the accepted timeline
    void check_settled() const;
    void forget_change();
    void sort_log();
    void collect_placed(std::int32_t from);
    void follow(const Segment& segment, std::int32_t from);
    void put_placed(std::int32_t from);
    void put_launches(std::int32_t from);
    [[nodiscard]] std::int32_t find_ready_at(Slot slot) const;
    void keep_ready(std::int32_t from);
    void keep_occupied(std::int32_t from);
    void keep_ends_after();

    // timeline_windows.cpp: what of it a change concerns first, and its state at any time
    std::int64_t find_windows();
    [[nodiscard]] bool waits_alike(std::size_t index) const;
    [[nodiscard]] std::int32_t position_at(std::int64_t time) const;
    void find_running(std::int32_t position, std::int64_t time);

    // timeline_splice.cpp: where it can be followed again
    enum class Splice : std::uint8_t { no, jumped, finished };
    Splice try_splice();
    [[nodiscard]] bool has_started_the_same(std::int32_t position);
    [[nodiscard]] bool runs_the_same(std::int32_t position, std::int64_t shift);
    [[nodiscard]] std::int64_t next_relevant(std::int32_t position) const;
    [[nodiscard]] std::int64_t ready_before(Slot slot, std::int64_t now) const;

    // timeline_replay.cpp: simulating
    bool replay();
    void restart(std::int64_t relevant, std::int64_t shift);
    void find_rest();
    void find_ready();
    void enter(Slot slot);
    bool begin(Slot slot);
    void run(Slot slot, std::int64_t end);
    void close_host(std::int32_t device);
    void insert_running(const Running& running);
    void end_tasks();
    [[nodiscard]] bool has_ended(Slot slot) const;
    [[nodiscard]] std::int32_t count_unfinished(Slot slot) const;
    [[nodiscard]] bool rest_fits() const;
    void close_log();
    void check_all_started() const;
    void check_changed_started() const;
    [[noreturn]] static void throw_cycle();

    SlotGraph graph_;

    // The accepted timeline, by position.
    std::int64_t makespan_ = 0;
    std::vector<Slot> order_;
    std::vector<std::int64_t> starts_;
    std::vector<std::int64_t> ends_;
    std::vector<std::int32_t> resource_sets_;
    std::vector<std::int64_t> ends_before_;     ///< largest end before
    std::vector<std::int64_t> ends_after_;      ///< largest end from here on
    std::vector<std::int32_t> ready_at_;        ///< all its predecessors are before this position
    std::vector<std::int32_t> least_ready_at_;  ///< of kStride positions each
    /// At positions 0, kStride, ..., per resource: the task that began there last, and for how long
    /// it was occupied.
    std::vector<Slot> last_;
    std::vector<std::int64_t> done_;
    std::vector<Mark> marks_;  ///< per slot
    HostLaunches hosts_{graph_};

    // The evaluation.
    std::int64_t limit_ = 0;
    std::vector<Window> windows_;                  ///< per changed slot
    std::vector<std::int32_t> changed_positions_;  ///< of changed tasks before, rising
    std::vector<Segment> segments_;
    std::vector<Started> log_;  ///< in order of start
    std::int64_t latest_end_ = 0;
    std::int64_t new_makespan_ = 0;
    bool pending_ = false;

    // The simulation since the latest restart.
    std::uint32_t restart_ = 0;  ///< number of it
    std::int32_t restart_position_ = 0;
    std::int64_t now_ = 0;
    ReadyQueues ready_;
    std::vector<Running> running_;  ///< by end, the next one last
    std::vector<std::int64_t>
        rest_;                 ///< per resource: durations of all tasks that have not started
    std::vector<Slot> ended_;  ///< now
    std::int32_t log_begin_ = 0;
    std::int32_t last_position_ = 0;  ///< of unchanged tasks that have started
    std::int32_t unchanged_ = 0;      ///< so many have started
    std::size_t settled_ = 0;         ///< of changed_positions_: before the restart
    std::size_t passed_ = 0;          ///< the same: before the position of the next splice
    std::int32_t next_try_ = 0;       ///< position before which no splice is tried again
    std::vector<Slot> latest_;        ///< per resource, of find_running()
    std::vector<Slot> found_running_;
    std::vector<Placed> placed_;  ///< scratch
    std::vector<std::int64_t> done_so_far_;
    TimelineEffort effort_;
};

}  // namespace partita::plan
