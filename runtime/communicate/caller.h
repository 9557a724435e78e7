// SPDX-License-Identifier: Apache-2.0
//
// Calls to libraries that may never return: another thread makes them, and whoever asked may stop
// waiting.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace partita::runtime {

/// Makes calls one after the other on a thread of its own, which is left behind if one never
/// returns.
/// Threads: begin() from any.
class Caller {
public:
    Caller() : thread_([queue = queue_] { queue->run(); }) {}
    ~Caller() {
        queue_->add(nullptr);
        if (ended_.wait_for(std::chrono::seconds(1)) == std::future_status::ready) {
            thread_.join();
        } else {
            thread_.detach();
        }
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    template <class Call>
    auto begin(Call call) {
        // Shared, because std::function copies what it holds.
        auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
        queue_->add([task] { (*task)(); });
        return task->get_future();
    }

private:
    struct Queue {
        void add(std::function<void()> call) {
            {
                const std::lock_guard lock(mutex);
                calls.push_back(std::move(call));
            }
            changed.notify_one();
        }
        void run() {
            while (true) {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return !calls.empty(); });
                const std::function<void()> call = std::move(calls.front());
                calls.pop_front();
                lock.unlock();
                if (!call) return ended.set_value();
                call();
            }
        }
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<std::function<void()>> calls;
        std::promise<void> ended;
    };

    // Shared with the thread, which may outlive this object.
    std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
    std::future<void> ended_ = queue_->ended.get_future();
    std::thread thread_;
};

}  // namespace partita::runtime
