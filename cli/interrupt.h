// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C stops a search, not the program: the best plan so far is written. A second Ctrl-C, or one
// when the search is over, ends the program at once. Two per process would share one flag; there is
// one, in the command that searches.
#pragma once

#include <atomic>

namespace partita::cli {

class Interrupt {
public:
    /// Takes over SIGINT and SIGTERM.
    Interrupt();
    /// From now on they end the program.
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// Set once interrupted; for EngineOptions::cancelled.
    [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace partita::cli
