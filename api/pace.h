// SPDX-License-Identifier: Apache-2.0
//
// Waits until this host is as fast as it has been. Other programs, and other guests of a virtual
// machine's host, make everything take half as long again for seconds at a time; what is measured
// then is not what the machine is.
//
//     wait()   a probe of about a millisecond on every core; slower than the best one so far by more than a
//              sixth: again, a tenth of a second later, and so on for some seconds
//
// A host that has become slower for good is not waited for forever: after half a minute in all, no
// more.
// Threads: one.
#pragma once

#include <chrono>
#include <functional>

namespace partita::api {

class Pace {
public:
    using Duration = std::chrono::nanoseconds;

    /// Both run on this host. `cores`: on which the probe runs at once.
    explicit Pace(int cores);
    /// For tests. `probe`: how long it took; `sleep`: for so long.
    Pace(std::function<Duration()> probe, std::function<void(Duration)> sleep)
        : probe_(std::move(probe)), sleep_(std::move(sleep)) {}

    void wait();
    [[nodiscard]] Duration waited() const { return waited_; }

private:
    std::function<Duration()> probe_;
    std::function<void(Duration)> sleep_;
    Duration best_ = Duration::max();
    Duration waited_{0};
};

}  // namespace partita::api
