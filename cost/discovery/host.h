// SPDX-License-Identifier: Apache-2.0
//
// This host: what the operating system says of it, and how fast its cores are.
//
// Limits of containers count (cgroup versions 1 and 2, CPU affinity). What cannot be found out has
// a default: one core, 4 GiB. Threads: one measurement at a time gives meaningful figures.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace partita::cost {

struct HostLimits {
    int cores = 1;                        ///< that this process may use
    Bytes memory{std::int64_t{4} << 30};  ///< that it may use
    std::string model = "CPU";            ///< name of the processor
};
HostLimits host_limits();

/// Of all cores together.
struct HostSpeed {
    std::int64_t memory_bandwidth = 0;  ///< bytes/s read and written by a[i] = b[i] + s c[i]; > 0
    std::int64_t flops = 0;             ///< float32 FLOP/s of multiply-adds in registers; > 0
};

/// Measures for less than 0.2 s on `cores` threads, with at most `memory` / 8 of memory. A thread
/// that cannot be started counts as none. Source of the loop: McCalpin, STREAM, 1995 (triad).
HostSpeed measure_host(int cores, Bytes memory);

}  // namespace partita::cost
