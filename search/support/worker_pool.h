// SPDX-License-Identifier: Apache-2.0
//
// A few threads that work through an index range. Indices are handed out in rising order, so the
// indices that were worked on are always a prefix of the range.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace partita::search {

class WorkerPool {
public:
    /// `count` >= 1 workers, of which the caller's thread is number 0; the others start when first
    /// needed.
    explicit WorkerPool(int count);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    [[nodiscard]] int count() const { return count_; }

    /// Calls work(worker, index) for index = 0, 1, ... size - 1 until one call returns false, and
    /// waits. Returns how many indices were handed to calls that returned true: all of them from 0
    /// on, or fewer. Rethrows the exception of the smallest index.
    std::size_t run(std::size_t size, const std::function<bool(int, std::size_t)>& work);

private:
    struct Pool;
    int count_;
    std::unique_ptr<Pool> pool_;
};

}  // namespace partita::search
