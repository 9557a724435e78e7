// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace partita::plan {

/// What a host takes to launch a piece of work on its device, which it does in their order and
/// without waiting for any of them: what eager frameworks need for each op (Python, dispatch,
/// autograd), and CUDA graphs do not. All 0: launching is free.
struct HostTime {
    Time kernel;         ///< of all work on a device but updates and communication
    Time communication;  ///< of a copy or collective, on the host of each rank
    Time update;         ///< of a parameter's update
    [[nodiscard]] bool any() const { return *this != HostTime{}; }
    friend bool operator==(const HostTime&, const HostTime&) = default;
};

/// No launch may take longer.
inline constexpr Time kMostHostTime{1'000'000'000};  // 1 ms

/// "kernel=45us,communication=30us,update=0us", or "none" where it is free. Says all of it.
std::string to_text(const HostTime& host);
/// Of such a text; what it leaves out is 0. "45us" is that of kernels and communication. nullopt:
/// it is none, or a time is more than kMostHostTime.
std::optional<HostTime> host_time_from_text(std::string_view text);

}  // namespace partita::plan
