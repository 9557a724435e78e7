// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of the current iteration are done; where workers wait for one another.
//
// Waiting spins for a while, which costs nothing where every worker has a core of its own, then
// sleeps; it ends when the time is over, and with Stopped as soon as another worker has failed.
// What a task wrote is seen by whoever saw it done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace partita::runtime {

/// Another worker failed; its error says why.
struct Stopped : std::exception {};

class TaskBoard {
public:
    /// `shares`: per task the steps that must end before it is done. `spin`: how long to wait
    /// awake.
    TaskBoard(std::vector<int> shares, std::chrono::nanoseconds spin);

    /// Before an iteration, while nobody works.
    void clear();
    /// One more share of the task is done. True for the last one.
    bool finish(std::size_t task);
    [[nodiscard]] bool is_done(std::size_t task) const {
        return left_[task].load(std::memory_order_acquire) == 0;
    }
    /// False when the time is over. Throws Stopped.
    [[nodiscard]] bool wait(std::size_t task, std::chrono::steady_clock::time_point until);
    /// Ends all waiting.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_acquire); }

private:
    std::vector<int> shares_;
    std::unique_ptr<std::atomic<int>[]> left_;
    std::chrono::nanoseconds spin_;
    std::atomic<bool> stopped_{false};
    std::atomic<int> sleeping_{0};
    std::mutex mutex_;
    std::condition_variable done_;
};

}  // namespace partita::runtime
