// SPDX-License-Identifier: Apache-2.0
#include "cli/timeline_picture.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/small_problems.h"

namespace partita::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

/// 60 columns wide: 30 for names and percentages, 30 for the timeline.
constexpr Terminal kAscii{.is_terminal = false, .unicode = false, .width = 60};
constexpr std::size_t kMostRows = 24;

struct Drawn {
    explicit Drawn(int devices)
        : graph(plan::WorkloadBuilder().node("a", 1).build()),
          machine(plan::switched_machine(devices)),
          problem(plan::make_problem(graph, machine)) {
        timeline.busy.resize(static_cast<std::size_t>(devices));
        tasks.device_count = devices;
    }
    /// Times in nanoseconds.
    void add(plan::TaskKind kind, int device, std::int64_t start, std::int64_t duration) {
        plan::Task task;
        task.kind = kind;
        task.device = device;
        task.duration = nanoseconds(duration);
        tasks.tasks.push_back(task);
        timeline.start.push_back(nanoseconds(start));
        if (kind != plan::TaskKind::copy) {
            timeline.busy[static_cast<std::size_t>(device)] += nanoseconds(duration);
        }
        timeline.makespan = std::max(timeline.makespan, nanoseconds(start + duration));
    }
    [[nodiscard]] std::string text() const {
        return timeline_picture(problem, tasks, timeline, kAscii).text(kMostRows);
    }

    graph::OpGraph graph;
    cost::Machine machine;
    plan::Problem problem;
    plan::TaskGraph tasks;
    plan::Timeline timeline;
};

// 30 us in 30 columns:
//
//     gpu0    0 ............ 15                        half of the time
//     copies              14 .. 16
//     gpu1                      16 ... 29.5 30         half of the last column
TEST(TimelinePicture, ShadesAColumnByTheShareOfItsTime) {
    Drawn drawn(3);
    drawn.add(plan::TaskKind::forward, 0, 0, 15'000);
    drawn.add(plan::TaskKind::copy, 0, 14'000, 2'000);
    drawn.add(plan::TaskKind::forward, 1, 16'000, 13'500);
    drawn.timeline.makespan = microseconds(30);
    EXPECT_EQ(drawn.text(),
              "timeline of 30.0 us, 1.00 us per column\n"
              "  gpu0                ###############                 50.0 %\n"
              "  gpu1                                #############:  45.0 %\n"
              "  1 device without work\n"
              "  communication                     ##\n");
}

// Less than a quarter of a column still shows: only nothing is blank.
TEST(TimelinePicture, ShowsTheShortestTask) {
    Drawn drawn(1);
    drawn.add(plan::TaskKind::forward, 0, 10'000, 1);
    drawn.timeline.makespan = microseconds(30);
    EXPECT_THAT(drawn.text(), HasSubstr("          .                   "));
}

TEST(TimelinePicture, FoldsManyDevicesAndCountsThem) {
    Drawn drawn(50);
    for (int d = 0; d < 40; ++d) drawn.add(plan::TaskKind::forward, d, 0, 1'000LL * (d + 1));
    const std::string text = drawn.text();
    EXPECT_THAT(text, HasSubstr("  gpu39"));
    EXPECT_THAT(text, HasSubstr("  gpu16"));  // the 24 busiest are gpu16 .. gpu39
    EXPECT_THAT(text, Not(HasSubstr("  gpu15")));
    EXPECT_THAT(text, HasSubstr("16 more devices up to 40.0 % busy, 10 devices without work"));
}

// gpu1 stands for itself and gpu2; gpu3 and gpu0 look the same.
TEST(TimelinePicture, DevicesThatDoTheSameShareARow) {
    Drawn drawn(4);
    for (const int d : {0, 3}) drawn.add(plan::TaskKind::forward, d, 0, 15'000);
    drawn.add(plan::TaskKind::forward, 1, 15'000, 15'000);
    drawn.tasks.representatives = {0, 1, 1, 3};
    drawn.tasks.copies = {1, 1, 2};
    plan::unfold(drawn.tasks, drawn.timeline.busy);
    EXPECT_EQ(drawn.text(),
              "timeline of 30.0 us, 1.00 us per column\n"
              "  gpu0 x 2            ###############                 50.0 %\n"
              "  gpu1 x 2                           ###############  50.0 %\n");
}

TEST(TimelinePicture, OfNothingIsEmpty) {
    EXPECT_EQ(Drawn(1).text(), "");
}

// Loads 20, 10 and 0 us: full bar, half a bar, none.
TEST(LoadPicture, DrawsEachLoadBesideTheLargest) {
    const Drawn drawn(3);
    const plan::Problem problem =
        plan::make_problem(drawn.graph, drawn.machine, {.objective = plan::Objective::throughput});
    const plan::Evaluation evaluation{
        .overflow = Bytes{0},
        .value = microseconds(20),
        .devices = {{microseconds(20), Bytes{0}}, {microseconds(10), Bytes{0}}, {}}};
    const std::string bars =
        "  gpu0                ##########################     20.0 us\n"
        "  gpu1                #############                  10.0 us\n"
        "  1 device without work\n";
    EXPECT_EQ(load_picture(problem, evaluation, kAscii).text(kMostRows),
              "load per sample, 20.0 us at most\n" + bars);
    EXPECT_EQ(load_picture(drawn.problem, evaluation, kAscii).text(kMostRows),
              "calls of each device, of a latency of 20.0 us\n" + bars);
}

}  // namespace
}  // namespace partita::cli
