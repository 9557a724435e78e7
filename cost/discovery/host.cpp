// SPDX-License-Identifier: Apache-2.0
#include "cost/discovery/host.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include <sched.h>

#include "cost/machine/machine.h"

namespace partita::cost {

namespace {

/// The numbers at the start of a small file of the kernel; "max" and anything else end them.
std::vector<std::int64_t> numbers_in(const char* path) {
    std::ifstream file(path);
    std::vector<std::int64_t> numbers;
    for (std::int64_t number = 0; file >> number;) numbers.push_back(number);
    return numbers;
}

/// What follows `key` and a colon in a file of "key : value" lines.
std::optional<std::string> value_in(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || !line.starts_with(key)) continue;
        const std::size_t first = line.find_first_not_of(" \t", colon + 1);
        return first == std::string::npos ? "" : line.substr(first);
    }
    return std::nullopt;
}

int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    const auto limit_to = [&](std::int64_t quota, std::int64_t period) {
        if (quota <= 0 || period <= 0) return;
        const std::int64_t whole = (quota + period - 1) / period;
        cores = static_cast<int>(std::min<std::int64_t>(cores, whole));
    };
    if (const auto v2 = numbers_in("/sys/fs/cgroup/cpu.max"); v2.size() == 2) {
        limit_to(v2[0], v2[1]);
    }
    const auto quota = numbers_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    const auto period = numbers_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!quota.empty() && !period.empty()) limit_to(quota[0], period[0]);
    return std::clamp(cores, 1, kMostDevices / 2);  // leaves room for GPUs
}

Bytes usable_memory(Bytes fallback) {
    Bytes memory = fallback;
    if (const auto total = value_in("/proc/meminfo", "MemTotal")) {
        std::int64_t kibibytes = 0;
        std::istringstream(*total) >> kibibytes;
        if (kibibytes > 0) memory = kibibytes * Bytes(1024);
    }
    for (const char* path :
         {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
        const auto limit = numbers_in(path);
        if (!limit.empty() && limit[0] > 0) memory = std::min(memory, Bytes(limit[0]));
    }
    return memory;
}

}  // namespace

HostLimits host_limits() {
    HostLimits limits;
    limits.cores = usable_cores();
    limits.memory = usable_memory(limits.memory);
    if (auto model = value_in("/proc/cpuinfo", "model name")) limits.model = *std::move(model);
    return limits;
}

}  // namespace partita::cost
