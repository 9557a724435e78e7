// SPDX-License-Identifier: Apache-2.0
//
// Schedule keys and control edges that are found slot by slot equal those of a whole graph
// (block_order.h), however it changes.
#include "plan/incremental/block_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/csr.h"
#include "plan/lowering/block_order.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

constexpr int kSlots = 24;
constexpr int kDevices = 3;
constexpr int kMicroBatches = 4;
constexpr std::int32_t kScheduleKeys = 2 * kMicroBatches;

/// What a caller says of a slot; predecessors have smaller numbers.
struct Given {
    bool present = false;
    std::int32_t resource_set = 0;
    std::uint64_t key = 0;
    std::int32_t schedule_key = IncrementalBlockOrder::kNone;
    std::vector<Slot> predecessors;
    friend bool operator==(const Given&, const Given&) = default;
};
using Slots = std::vector<Given>;

/// Of a slot, as it comes out.
struct Found {
    bool present = false;
    std::uint64_t schedule_key = 0;
    std::vector<Slot> predecessors;
    friend bool operator==(const Found&, const Found&) = default;
};

std::ostream& operator<<(std::ostream& out, const Found& found) {
    return out << (found.present ? "key " : "none ") << found.schedule_key << " after "
               << testing::PrintToString(found.predecessors);
}

std::size_t at(Slot slot) {
    return static_cast<std::size_t>(slot);
}

class ChangingOrder {
public:
    explicit ChangingOrder(std::uint64_t seed)
        : random_(seed),
          block_order_(kDevices, keys()),
          graph_(0, {}),
          limits_(kSlots, 0),
          slots_(kSlots) {
        while (graph_.resource_sets() < kDevices + 1) graph_.add_resource_set({});
        const Slots nothing(kSlots);
        draw_limits();
        for (Slot slot = 0; slot < kSlots; ++slot) redraw(slot);
        change(nothing);
        block_order_.accept();
        expect_equal();
    }

    void step() {
        const Slots before = slots_;
        const std::vector<std::int32_t> limits = limits_;
        if (draw(random_, 3) == 0) draw_limits();
        for (int i = draw(random_, 4); i > 0; --i) redraw(draw(random_, kSlots));
        follow_limits();
        change(before);
        expect_equal();
        if (draw(random_, 2) == 0) {
            block_order_.accept();
            return;
        }
        block_order_.reject();
        graph_.reject();
        slots_ = before;
        limits_ = limits;
        expect_equal();
    }

private:
    static SlotKeys keys() {
        const graph::OpGraph graph = two_layers();
        const cost::Machine machine = switched_machine(kDevices);
        const Problem problem = make_problem(graph, machine, {.mode = Mode::training});
        return SlotKeys::fitting(problem, {.micro_batches = kMicroBatches,
                                           .schedule = {.kind = ScheduleKind::gpipe}})
            .value();
    }

    /// Schedule keys rise with slots, so that control edges make no circle.
    void draw_limits() {
        for (std::int32_t& limit : limits_) limit = draw(random_, kScheduleKeys);
        std::sort(limits_.begin(), limits_.end());
    }

    void redraw(Slot slot) {
        Given& given = slots_[at(slot)];
        given = {};
        if (draw(random_, 8) == 0) return;
        given.present = true;
        given.resource_set = draw(random_, kDevices + 1);
        given.key = static_cast<std::uint64_t>(draw(random_, 100));
        if (given.resource_set < kDevices) {
            const int kind = draw(random_, 4);
            given.schedule_key = kind == 0   ? IncrementalBlockOrder::kNone
                                 : kind == 1 ? IncrementalBlockOrder::kOfPredecessors
                                             : 0;
        }
        for (int i = slot > 0 ? draw(random_, 4) : 0; i > 0; --i) {
            given.predecessors.push_back(draw(random_, slot));
        }
    }

    void follow_limits() {
        for (Slot slot = 0; slot < kSlots; ++slot) {
            Given& given = slots_[at(slot)];
            if (given.schedule_key >= 0) given.schedule_key = limits_[at(slot)];
            std::erase_if(given.predecessors, [&](Slot p) { return !slots_[at(p)].present; });
            std::sort(given.predecessors.begin(), given.predecessors.end());
            const auto end = std::unique(given.predecessors.begin(), given.predecessors.end());
            given.predecessors.erase(end, given.predecessors.end());
        }
    }

    /// All that differs is given, and some that does not.
    void change(const Slots& before) {
        follow_limits();
        std::vector<SlotTask> tasks;
        std::vector<std::int32_t> schedule_keys;
        for (Slot slot = 0; slot < kSlots; ++slot) {
            const Given& given = slots_[at(slot)];
            if (given == before[at(slot)] && draw(random_, 4) != 0) continue;
            tasks.push_back({.slot = slot,
                             .present = given.present,
                             .resource_set = given.resource_set,
                             .duration = 1,
                             .key = given.key,
                             .predecessors = given.predecessors});
            schedule_keys.push_back(given.schedule_key);
        }
        graph_.change(block_order_.change(tasks, schedule_keys));
    }

    [[nodiscard]] std::vector<Found> found() const {
        std::vector<Found> found(kSlots);
        for (Slot slot = 0; slot < kSlots; ++slot) {
            if (at(slot) >= graph_.slots() || !graph_.has(slot)) continue;
            const SlotGraph::Node& node = graph_[slot];
            found[at(slot)] = {true,
                               keys_.schedule_key(node.key),
                               {node.predecessors.begin(), node.predecessors.end()}};
        }
        return found;
    }

    /// Tasks are numbered as slots; what is in none has its own.
    [[nodiscard]] std::vector<Found> expected() const {
        TaskGraph graph;
        graph.tasks.resize(kSlots);
        std::vector<std::pair<TaskId, TaskId>> edges;
        for (Slot slot = 0; slot < kSlots; ++slot) {
            const Given& given = slots_[at(slot)];
            Task& task = graph.tasks[at(slot)];
            task.device = given.resource_set;
            task.schedule_key = given.schedule_key;
            if (given.schedule_key == IncrementalBlockOrder::kOfPredecessors) {
                task.schedule_key = -1;
                for (const Slot p : given.predecessors) {
                    task.schedule_key =
                        std::max(task.schedule_key, graph.tasks[at(p)].schedule_key);
                }
                for (const Slot p : given.predecessors) {
                    if (graph.tasks[at(p)].schedule_key < 0) task.schedule_key = -1;
                }
            }
            for (const Slot p : given.predecessors) {
                edges.emplace_back(TaskId(at(p)), TaskId(at(slot)));
            }
        }
        add_control_edges(graph.tasks, edges);
        graph.successors = to_csr(edges, kSlots);
        graph.predecessor_counts.assign(kSlots, 0);
        std::vector<Found> found(kSlots);
        for (Slot slot = 0; slot < kSlots; ++slot) {
            for (const TaskId next : graph.successors[at(slot)]) {
                ++graph.predecessor_counts[next.index()];
                found[next.index()].predecessors.push_back(slot);
            }
        }
        spread_schedule_keys(graph);
        for (Slot slot = 0; slot < kSlots; ++slot) {
            found[at(slot)].present = slots_[at(slot)].present;
            if (!found[at(slot)].present) continue;
            found[at(slot)].schedule_key =
                static_cast<std::uint64_t>(graph.tasks[at(slot)].schedule_key);
        }
        return found;
    }

    void expect_equal() const { ASSERT_EQ(found(), expected()); }

    Random random_;
    SlotKeys keys_ = keys();
    IncrementalBlockOrder block_order_;
    SlotGraph graph_;
    std::vector<std::int32_t> limits_;  ///< schedule keys of slots that have one
    Slots slots_;
};

TEST(IncrementalBlockOrder, EqualThoseOfAWholeGraph) {
    for (const std::uint64_t seed : support::seeds(300)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        ChangingOrder changing(seed);
        for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) changing.step();
        if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace partita::plan
