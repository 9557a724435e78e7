// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <chrono>
#include <csignal>
#include <cstdint>

namespace partita::cli {
namespace {

/// What comes so soon is the same interruption: timeout(1) signals a program and then its whole group.
constexpr std::int64_t kSameNanoseconds = 200'000'000;

// A signal handler reaches nothing but globals.
std::atomic<bool> searching{false};
std::atomic<bool> interrupted{false};
std::atomic<std::int64_t> latest{INT64_MIN / 2};
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "needed in a signal handler");

extern "C" void on_interrupt(int signal) {
    const std::int64_t now =
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (now - latest.exchange(now) < kSameNanoseconds) return;
    if (searching.load() && !interrupted.exchange(true)) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

}  // namespace

Interrupt::Interrupt() {
    interrupted.store(false);
    searching.store(true);
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
}

Interrupt::~Interrupt() {
    searching.store(false);
}

const std::atomic<bool>& Interrupt::flag() const {
    return interrupted;
}

}  // namespace partita::cli
