// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/task_board.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace partita::runtime {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

Clock::time_point never() {
    return Clock::now() + std::chrono::minutes(5);
}

TEST(TaskBoard, ATaskIsDoneAfterItsLastShare) {
    TaskBoard board({2, 1}, microseconds(0));
    EXPECT_FALSE(board.finish(0));
    EXPECT_FALSE(board.is_done(0));
    EXPECT_TRUE(board.finish(0));
    EXPECT_TRUE(board.is_done(0));
    EXPECT_TRUE(board.wait(0, Clock::now()));
    EXPECT_FALSE(board.is_done(1));
    board.clear();
    EXPECT_FALSE(board.is_done(0));
}

TEST(TaskBoard, WaitingEndsWhenTheTimeIsOver) {
    for (const int spin : {0, 100}) {
        TaskBoard board({1}, microseconds(spin));
        EXPECT_FALSE(board.wait(0, Clock::now() + microseconds(200)));
    }
}

TEST(TaskBoard, WaitingEndsWhenAnotherWorkerFails) {
    for (const int spin : {0, 100}) {
        for (int i = 0; i < 20; ++i) {
            TaskBoard board({1}, microseconds(spin));
            const std::jthread other([&] { board.stop(); });
            EXPECT_THROW((void)board.wait(0, never()), Stopped);
        }
    }
}

// Each worker waits for the other's task in turn: whoever falls asleep as the other finishes must
// wake.
TEST(TaskBoard, NobodyOversleeps) {
    constexpr std::size_t kTasks = 4'000;
    for (const int spin : {0, 5}) {
        TaskBoard board(std::vector<int>(kTasks, 1), microseconds(spin));
        std::vector<int> written(kTasks, 0);  // what a task wrote is seen by who waited for it
        const auto work = [&](std::size_t first) {
            for (std::size_t task = first; task < kTasks; task += 2) {
                if (task > 0 && !board.wait(task - 1, never())) return;
                written[task] = task > 0 ? written[task - 1] + 1 : 0;
                board.finish(task);
            }
        };
        {
            const std::jthread other(work, 1);
            work(0);
        }
        EXPECT_EQ(written.back(), static_cast<int>(kTasks) - 1);
    }
}

}  // namespace
}  // namespace partita::runtime
