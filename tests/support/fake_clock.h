// SPDX-License-Identifier: Apache-2.0
//
// A clock that moves only when it is looked at: tests of time limits neither wait nor flicker.
#pragma once

#include <atomic>
#include <cstdint>

#include "search/support/clock.h"

namespace partita::support {

class FakeClock final : public search::Clock {
public:
    /// Every look moves it on by `tick`.
    explicit FakeClock(search::Duration tick) : tick_(tick) {}

    [[nodiscard]] search::Duration now() const override { return looks_++ * tick_; }

private:
    search::Duration tick_;
    mutable std::atomic<std::int64_t> looks_{0};
};

}  // namespace partita::support
