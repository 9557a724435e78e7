// SPDX-License-Identifier: Apache-2.0
#include "search/support/clock.h"

namespace partita::search {

namespace {

class SteadyClock final : public Clock {
public:
    [[nodiscard]] Duration now() const override {
        return std::chrono::duration_cast<Duration>(
            std::chrono::steady_clock::now().time_since_epoch());
    }
};

}  // namespace

const Clock& steady_clock() {
    static const SteadyClock kClock;
    return kClock;
}

}  // namespace partita::search
