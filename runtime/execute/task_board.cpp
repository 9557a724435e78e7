// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/task_board.h"

#include <thread>
#include <utility>

namespace partita::runtime {

using Clock = std::chrono::steady_clock;

TaskBoard::TaskBoard(std::vector<int> shares, std::chrono::nanoseconds spin)
    : shares_(std::move(shares)),
      left_(std::make_unique<std::atomic<int>[]>(shares_.size())),
      spin_(spin) {
    clear();
}

void TaskBoard::clear() {
    for (std::size_t t = 0; t < shares_.size(); ++t) {
        left_[t].store(shares_[t], std::memory_order_relaxed);
    }
}

bool TaskBoard::finish(std::size_t task) {
    if (left_[task].fetch_sub(1, std::memory_order_seq_cst) != 1) return false;
    // A sleeper counts itself before it looks at the task again: either it sees this one done, or
    // it is counted here.
    if (sleeping_.load(std::memory_order_seq_cst) > 0) {
        const std::lock_guard lock(mutex_);
        done_.notify_all();
    }
    return true;
}

bool TaskBoard::wait(std::size_t task, Clock::time_point until) {
    const auto awake_until = Clock::now() + spin_;
    constexpr int kLooksPerTime = 64;
    for (int looks = 0; !is_done(task); ++looks) {
        if (stopped()) throw Stopped{};
        if (looks % kLooksPerTime == 0 && Clock::now() >= awake_until) break;
        std::this_thread::yield();
    }
    if (is_done(task)) return true;
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    const bool in_time = done_.wait_until(
        lock, until, [&] { return stopped() || left_[task].load(std::memory_order_seq_cst) == 0; });
    sleeping_.fetch_sub(1, std::memory_order_seq_cst);
    if (stopped()) throw Stopped{};
    return in_time;
}

void TaskBoard::stop() {
    stopped_.store(true, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    done_.notify_all();
}

}  // namespace partita::runtime
