// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/ranks.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/runtime/communicate/thread_communicator.h"

namespace partita::runtime {
namespace {

/// Two tasks, two devices; each rank has measured its own, and 0 where it had nothing to do.
ExecuteResult measured(int rank) {
    const std::int64_t less = rank == 0 ? 10 : 0;
    const std::int64_t more = rank == 0 ? 20 : 70;
    ExecuteResult result;
    result.times = {{.median = picoseconds(less + 2),
                     .lower = picoseconds(less + 1),
                     .upper = picoseconds(less + 3)},
                    {.median = picoseconds(more + 2),
                     .lower = picoseconds(more + 1),
                     .upper = picoseconds(more + 3)}};
    result.memory = {Bytes{rank == 0 ? 500 : 0}, Bytes{rank == 0 ? 0 : 800}};
    result.runs = {{.task = plan::TaskId(static_cast<std::size_t>(rank)),
                    .device = rank,
                    .start = picoseconds(rank),
                    .end = picoseconds(10 + rank)}};
    return result;
}

TEST(Merge, TakesTheLargestOfWhatRanksMeasured) {
    const auto worlds = thread_communicators(2);
    std::vector<ExecuteResult> results = {measured(0), measured(1)};
    {
        std::jthread other([&] { merge(*worlds[1], results[1]); });
        merge(*worlds[0], results[0]);
    }
    const ExecuteResult& merged = results[0];
    EXPECT_EQ(merged.times[0].lower, picoseconds(11));
    EXPECT_EQ(merged.times[0].median, picoseconds(12));
    EXPECT_EQ(merged.times[0].upper, picoseconds(13));
    EXPECT_EQ(merged.times[1].lower, picoseconds(71));
    EXPECT_EQ(merged.times[1].median, picoseconds(72));
    EXPECT_EQ(merged.times[1].upper, picoseconds(73));
    EXPECT_EQ(merged.memory, (std::vector<Bytes>{Bytes{500}, Bytes{800}}));
    ASSERT_EQ(merged.runs.size(), 2);
    for (const int rank : {0, 1}) {
        EXPECT_EQ(merged.runs[rank].task.value, rank);
        EXPECT_EQ(merged.runs[rank].device, rank);
        EXPECT_EQ(merged.runs[rank].start, picoseconds(rank));
        EXPECT_EQ(merged.runs[rank].end, picoseconds(10 + rank));
    }
}

}  // namespace
}  // namespace partita::runtime
