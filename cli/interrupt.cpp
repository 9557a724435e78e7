// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <csignal>

namespace partita::cli {
namespace {

// A signal handler reaches nothing but globals.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");

extern "C" void on_interrupt(int signal) {
    interrupted.store(true);
    std::signal(signal, SIG_DFL);  // the second one ends the program
}

}  // namespace

Interrupt::Interrupt() {
    interrupted.store(false);
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
}

Interrupt::~Interrupt() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& Interrupt::flag() const {
    return interrupted;
}

}  // namespace partita::cli
