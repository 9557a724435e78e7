// SPDX-License-Identifier: Apache-2.0
#include "search/support/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace partita::search {
namespace {

TEST(WorkerPool, VisitEveryIndexOnce) {
    for (const int count : {1, 2, 5}) {
        WorkerPool workers(count);
        for (const std::size_t size : {0U, 1U, 100U}) {
            std::vector<std::atomic<int>> visits(size);
            const std::size_t done = workers.run(size, [&](int worker, std::size_t index) {
                EXPECT_LT(worker, count);
                ++visits[index];
                return true;
            });
            EXPECT_EQ(done, size);
            for (const auto& n : visits) EXPECT_EQ(n, 1);
        }
    }
}

TEST(WorkerPool, StopAtTheFirstRefusalAndFinishAllBeforeIt) {
    for (const int count : {1, 3}) {
        WorkerPool workers(count);
        std::vector<std::atomic<int>> visits(100);
        const std::size_t done = workers.run(100, [&](int /*worker*/, std::size_t index) {
            ++visits[index];
            return index < 40;
        });
        EXPECT_EQ(done, 40U);
        for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(visits[i], 1) << i;
    }
}

TEST(WorkerPool, RethrowTheErrorOfTheSmallestIndex) {
    WorkerPool workers(4);
    const auto work = [](int /*worker*/, std::size_t index) -> bool {
        if (index >= 10) throw std::runtime_error(std::to_string(index));
        return true;
    };
    for (int round = 0; round < 20; ++round) {
        try {
            workers.run(100, work);
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "10");
        }
    }
    EXPECT_EQ(workers.run(5, work), 5U);  // and they go on working
}

}  // namespace
}  // namespace partita::search
