// SPDX-License-Identifier: Apache-2.0
//
// The engine's clock is a parameter, so that tests of time limits neither wait nor flicker.
#pragma once

#include <chrono>

namespace partita::search {

using Duration = std::chrono::nanoseconds;

class Clock {
public:
    virtual ~Clock() = default;
    /// Since a fixed moment; never falls. Called from several threads at once.
    [[nodiscard]] virtual Duration now() const = 0;
};

/// The steady clock of this host.
const Clock& steady_clock();

}  // namespace partita::search
