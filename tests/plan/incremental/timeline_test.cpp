// SPDX-License-Identifier: Apache-2.0
//
// Incremental timelines equal those of a whole simulation, however the graph changes.
#include "plan/incremental/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "search/support/random.h"
#include "tests/plan/incremental/literal_timeline.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;
using support::draw;

/// Devices with a compute row each, and resource sets from device to device over shared channels.
Csr<std::int32_t> random_resource_sets(Random& random, int devices) {
    Csr<std::int32_t> resource_sets;
    const auto add = [&](const std::set<std::int32_t>& resources) {
        resource_sets.add_row(resources);
    };
    for (int d = 0; d < devices; ++d) add({compute_row(d)});
    for (int i = 0; i < 3 * devices; ++i) {
        const int from = draw(random, devices);
        const int to = draw(random, devices);
        add({send_row(from), receive_row(to), 3 * devices + draw(random, 2)});
    }
    std::set<std::int32_t> all;
    for (int d = 0; d < devices; ++d) all.insert({send_row(d), receive_row(d)});
    add(all);
    return resource_sets;
}

/// Of most devices that such a resource set is of.
Csr<std::int32_t> random_hosts(Random& random, const Csr<std::int32_t>& resource_sets,
                               int devices) {
    const int silent = draw(random, 2 * devices);
    Csr<std::int32_t> hosts;
    for (std::size_t i = 0; i < resource_sets.rows(); ++i) {
        std::set<std::int32_t> of;
        for (const std::int32_t r : resource_sets[i]) {
            if (r < 3 * devices && r / 3 != silent) of.insert(r / 3);
        }
        hosts.add_row(of);
    }
    return hosts;
}

/// A graph that changes at random, and its incremental timeline.
class ChangingTimeline {
public:
    /// `largest_launch`: 0: launching is free.
    ChangingTimeline(std::uint64_t seed, int largest_launch)
        : random_(seed),
          devices_(1 + draw(random_, 5)),
          slots_(20 + draw(random_, 180)),
          largest_(1 + draw(random_, 12)),
          largest_launch_(largest_launch),
          resource_sets_(random_resource_sets(random_, devices_)),
          hosts_(largest_launch > 0 ? random_hosts(random_, resource_sets_, devices_)
                                    : no_hosts(resource_sets_)),
          timeline_(resources(), resource_sets_, hosts_) {
        for (Slot slot = 0; slot < slots_; ++slot) {
            if (draw(random_, 4) != 0) graph_[slot] = random_task(slot);
        }
        EXPECT_EQ(apply({}, graph_, Time::max()), Time(literal_of(graph_).makespan));
        timeline_.accept();
        expect_equal();
    }

    /// One change, with a limit near the truth: accepted or taken back.
    void step() {
        PlainGraph next = graph_;
        const int changes = 1 + draw(random_, draw(random_, 4) == 0 ? 10 : 3);
        // Near each other, as the tasks of one op are, or anywhere.
        const int center = draw(random_, slots_);
        const int spread = draw(random_, 2) == 0 ? 5 : slots_;
        for (int i = 0; i < changes; ++i) {
            change(next, std::min(slots_ - 1, std::max(0, center + draw(random_, spread))));
        }
        const LiteralTimeline expected = literal_of(next);
        const std::int64_t slack = draw(random_, 7) - 3;
        const Time limit = draw(random_, 3) == 0
                               ? Time::max()
                               : Time(std::max<std::int64_t>(0, expected.makespan + slack));
        const auto makespan = apply(graph_, next, limit);
        if (Time(expected.makespan) > limit) {
            EXPECT_EQ(makespan, std::nullopt);
            ++rejections_;
        } else {
            ASSERT_EQ(makespan, Time(expected.makespan));
            if (draw(random_, 2) == 0) {
                timeline_.accept();
                graph_ = std::move(next);
            } else {
                timeline_.reject();
            }
        }
        if (draw(random_, 4) == 0) expect_equal();
    }

    void expect_equal() {
        const LiteralTimeline expected = literal_of(graph_);
        EXPECT_EQ(timeline_.makespan(), Time(expected.makespan));
        const auto order = timeline_.order();
        EXPECT_EQ(std::vector<Slot>(order.begin(), order.end()), expected.order);
        for (const auto& [slot, start] : expected.start) {
            EXPECT_EQ(timeline_.start(slot), Time(start)) << "slot " << slot;
        }
    }

    [[nodiscard]] const TimelineEffort& effort() const { return timeline_.effort(); }
    [[nodiscard]] int rejections() const { return rejections_; }

private:
    [[nodiscard]] int resources() const { return 3 * devices_ + 2; }
    [[nodiscard]] LiteralTimeline literal_of(const PlainGraph& graph) const {
        return literal_timeline(graph, resource_sets_, hosts_, resources());
    }
    static Csr<std::int32_t> no_hosts(const Csr<std::int32_t>& resource_sets) {
        Csr<std::int32_t> none;
        while (none.rows() < resource_sets.rows()) none.end_row();
        return none;
    }
    std::int32_t random_launch() {
        return largest_launch_ > 0 ? draw(random_, largest_launch_ + 1) : 0;
    }

    /// Keys that often agree with the order of slots, and are unique.
    std::uint64_t random_key(Slot slot) {
        const auto major =
            static_cast<std::uint64_t>(draw(random_, 2) == 0 ? slot / 4 : draw(random_, 60));
        return major * 1'000 + static_cast<std::uint64_t>(slot);
    }

    PlainTask random_task(Slot slot) {
        PlainTask task{.resource_set = draw(random_, static_cast<int>(resource_sets_.rows())),
                       .duration = 1 + draw(random_, largest_),
                       .launch = random_launch(),
                       .key = random_key(slot),
                       .predecessors = {}};
        if (draw(random_, 3) != 0) task.resource_set = draw(random_, devices_);
        std::set<Slot> predecessors;
        for (int i = draw(random_, 4); i > 0 && slot > 0; --i) {
            const Slot p = std::max(0, slot - 1 - draw(random_, 15));
            if (graph_.contains(p)) predecessors.insert(p);
        }
        task.predecessors.assign(predecessors.begin(), predecessors.end());
        return task;
    }

    void change(PlainGraph& next, Slot slot) {
        const bool present = next.contains(slot);
        switch (draw(random_, present ? largest_launch_ > 0 ? 5 : 4 : 1)) {
        case 0: {
            PlainTask task = random_task(slot);
            std::erase_if(task.predecessors, [&](Slot p) { return !next.contains(p); });
            next[slot] = std::move(task);
            break;
        }
        case 1: next[slot].duration = 1 + draw(random_, largest_); break;
        case 2: next[slot].key = random_key(slot); break;
        case 3:
            next.erase(slot);
            for (auto& [other, task] : next) std::erase(task.predecessors, slot);
            break;
        case 4: next[slot].launch = random_launch(); break;
        default: break;
        }
    }

    std::optional<Time> apply(const PlainGraph& before, const PlainGraph& after, Time limit) {
        std::vector<SlotTask> changes;
        for (Slot slot = 0; slot < slots_; ++slot) {
            const auto old = before.find(slot);
            const auto now = after.find(slot);
            if (now == after.end()) {
                if (old != before.end()) changes.push_back({.slot = slot, .present = false});
                continue;
            }
            const PlainTask& task = now->second;
            if (old != before.end() && old->second == task) continue;
            changes.push_back({.slot = slot,
                               .resource_set = task.resource_set,
                               .duration = task.duration,
                               .launch = task.launch,
                               .key = task.key,
                               .predecessors = task.predecessors});
        }
        return timeline_.evaluate(changes, limit);
    }

    Random random_;
    int devices_;
    int slots_;
    int largest_;
    int largest_launch_;
    Csr<std::int32_t> resource_sets_;
    Csr<std::int32_t> hosts_;
    IncrementalTimeline timeline_;
    PlainGraph graph_;
    int rejections_ = 0;
};

TEST(IncrementalTimeline, EqualsTheLiteralRuleAfterAnyChanges) {
    std::int64_t spliced = 0;
    std::int64_t early = 0;
    for (const std::uint64_t seed : support::seeds(75)) {
        if (testing::Test::HasFailure()) break;
        SCOPED_TRACE("seed " + std::to_string(seed));
        ChangingTimeline changing(seed, 0);
        for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) changing.step();
        changing.expect_equal();
        spliced += changing.effort().spliced;
        early += changing.effort().rejected_early + changing.effort().rejected_by_load;
    }
    EXPECT_GT(spliced, support::draws(250));
    EXPECT_GT(early, support::draws(250));
}

/// Hosts that devices always wait for, mostly, or hardly ever.
TEST(IncrementalTimeline, EqualsTheLiteralRuleWhereLaunchesTakeTime) {
    std::int64_t spliced = 0;
    for (const std::uint64_t seed : support::seeds(75)) {
        if (testing::Test::HasFailure()) break;
        SCOPED_TRACE("seed " + std::to_string(seed));
        ChangingTimeline changing(seed, 1 + static_cast<int>(seed % 9));
        for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) changing.step();
        changing.expect_equal();
        spliced += changing.effort().spliced;
    }
    EXPECT_GT(spliced, support::draws(50));
}

/// What waits for its host starts after all else has ended: nothing is left to do then.
TEST(IncrementalTimeline, ALimitHoldsWithoutTheTaskThatWaitedForItsHost) {
    Csr<std::int32_t> one;
    one.add_row(std::vector<std::int32_t>{0});
    IncrementalTimeline timeline(1, one, one);
    const std::vector<SlotTask> both{{.slot = 0, .duration = 2, .launch = 9, .key = 0},
                                     {.slot = 1, .duration = 1, .launch = 0, .key = 1}};
    ASSERT_EQ(timeline.evaluate(both), Time(10));
    timeline.accept();
    const std::vector<SlotTask> without{{.slot = 1, .present = false}};
    EXPECT_EQ(timeline.evaluate(without, Time(5)), Time(2));
}

TEST(IncrementalTimeline, AChangeIsSettledBeforeTheNext) {
    Csr<std::int32_t> resource_sets;
    resource_sets.items = {0};
    resource_sets.offsets = {0, 1};
    IncrementalTimeline timeline(1, resource_sets);
    const std::vector<SlotTask> first{{.slot = 0, .duration = 5, .key = 0}};
    EXPECT_THROW(timeline.accept(), std::logic_error);
    EXPECT_EQ(timeline.evaluate(first), Time(5));
    EXPECT_THROW((void)timeline.evaluate(first), std::logic_error);
    timeline.reject();
    EXPECT_THROW(timeline.reject(), std::logic_error);
    EXPECT_EQ(timeline.evaluate(first, Time(4)), std::nullopt);
    EXPECT_THROW(timeline.accept(), std::logic_error);
    EXPECT_EQ(timeline.makespan(), Time(0));
    EXPECT_EQ(timeline.evaluate(first, Time(5)), Time(5));
    timeline.accept();
    EXPECT_EQ(timeline.makespan(), Time(5));
}

TEST(IncrementalTimeline, RefusesACycle) {
    Csr<std::int32_t> resource_sets;
    resource_sets.items = {0};
    resource_sets.offsets = {0, 1};
    IncrementalTimeline timeline(1, resource_sets);
    const std::vector<Slot> second{1};
    const std::vector<Slot> first{0};
    const std::vector<SlotTask> cycle{{.slot = 0, .duration = 1, .key = 0, .predecessors = second},
                                      {.slot = 1, .duration = 1, .key = 1, .predecessors = first}};
    EXPECT_THROW((void)timeline.evaluate(cycle), std::logic_error);
}

}  // namespace
}  // namespace partita::plan
