// SPDX-License-Identifier: Apache-2.0
//
// A flag that all communicators of one process share: whoever fails first raises it with the
// reason, and everyone else who waits for a peer stops within milliseconds instead of at the
// time-out.
//
// Never lowered. Threads: all functions from any of them.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace partita::runtime {

class Abort {
public:
    /// The first reason stays.
    void raise(std::string reason) {
        const std::lock_guard lock(mutex_);
        if (raised_.load(std::memory_order_relaxed)) return;
        reason_ = std::move(reason);
        raised_.store(true, std::memory_order_release);
    }
    [[nodiscard]] bool raised() const { return raised_.load(std::memory_order_acquire); }
    /// Empty until it is raised.
    [[nodiscard]] std::string reason() const {
        const std::lock_guard lock(mutex_);
        return reason_;
    }

private:
    std::atomic<bool> raised_ = false;
    mutable std::mutex mutex_;
    std::string reason_;
};

}  // namespace partita::runtime
