// SPDX-License-Identifier: Apache-2.0
#include "search/support/worker_pool.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace partita::search {

/// One round of work at a time; all fields below `mutex` are guarded by it.
struct WorkerPool::Pool {
    std::mutex mutex;
    std::condition_variable begin;
    std::condition_variable end;
    const std::function<bool(int, std::size_t)>* work = nullptr;
    std::uint64_t round = 0;
    std::size_t size = 0;
    std::size_t next = 0;
    std::size_t stopped_at = 0;  ///< the smallest index whose call returned false or threw
    std::exception_ptr error;    ///< of index stopped_at
    int busy = 0;
    bool quit = false;
    std::vector<std::thread> threads;

    void take_indices(int worker, std::unique_lock<std::mutex>& lock);
    void serve(int worker);
};

void WorkerPool::Pool::take_indices(int worker, std::unique_lock<std::mutex>& lock) {
    while (next < size && next < stopped_at) {
        const std::size_t index = next++;
        lock.unlock();
        bool go_on = false;
        std::exception_ptr thrown;
        try {
            go_on = (*work)(worker, index);
        } catch (...) {
            thrown = std::current_exception();
        }
        lock.lock();
        if (!go_on && index < stopped_at) {
            stopped_at = index;
            error = thrown;
        }
    }
}

void WorkerPool::Pool::serve(int worker) {
    std::unique_lock lock(mutex);
    for (std::uint64_t seen = 0;;) {
        begin.wait(lock, [&] { return quit || round != seen; });
        if (quit) return;
        seen = round;
        take_indices(worker, lock);
        if (--busy == 0) end.notify_one();
    }
}

WorkerPool::WorkerPool(int count) : count_(count) {
    assert(count >= 1);
}

WorkerPool::~WorkerPool() {
    if (!pool_) return;
    {
        const std::lock_guard lock(pool_->mutex);
        pool_->quit = true;
    }
    pool_->begin.notify_all();
    for (std::thread& thread : pool_->threads) thread.join();
}

std::size_t WorkerPool::run(std::size_t size, const std::function<bool(int, std::size_t)>& work) {
    if (!pool_) pool_ = std::make_unique<Pool>();
    Pool& pool = *pool_;
    std::unique_lock lock(pool.mutex);
    pool.work = &work;
    pool.size = size;
    pool.next = 0;
    pool.stopped_at = std::numeric_limits<std::size_t>::max();
    pool.error = nullptr;
    if (count_ > 1 && size > 1) {
        while (static_cast<int>(pool.threads.size()) < count_ - 1) {
            const int worker = static_cast<int>(pool.threads.size()) + 1;
            pool.threads.emplace_back([&pool, worker] { pool.serve(worker); });
        }
        ++pool.round;
        pool.busy = count_ - 1;
        pool.begin.notify_all();
    }
    pool.take_indices(0, lock);
    pool.end.wait(lock, [&] { return pool.busy == 0; });
    if (pool.error) std::rethrow_exception(pool.error);
    return std::min(pool.stopped_at, size);
}

}  // namespace partita::search
