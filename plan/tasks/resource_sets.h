// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash_index.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// Resource sets and groups of devices by number, as a TaskGraph has them; they only become more.
/// Set d is the compute row of device d.
class ResourceSets {
public:
    /// Devices that communicate: row of ranks(), and resource set.
    struct Group {
        std::int32_t row = -1;
        std::int32_t resource_set = -1;
    };

    explicit ResourceSets(const Problem& problem);

    /// Send row, receive row and the channels between them. Between CPUs, whose cores move the
    /// bytes, the compute row of the receiver too, and in another node that of the sender.
    std::int32_t of_copy(int from, int to);
    /// Both communication rows of every rank, the compute rows of CPUs, and the channels that these
    /// keep busy together (cost::channels_of).
    Group of_ranks(std::span<const int> devices);

    [[nodiscard]] const Csr<std::int32_t>& resources() const { return resource_sets_; }
    /// Per resource set the devices whose hosts launch its tasks: accelerators. A CPU is its own.
    [[nodiscard]] const Csr<std::int32_t>& hosts() const { return hosts_; }
    [[nodiscard]] const Csr<std::int32_t>& ranks() const { return ranks_; }

private:
    std::int32_t add(std::vector<std::int32_t> resources, std::span<const int> devices);

    const Problem& problem_;
    Csr<std::int32_t> resource_sets_;
    Csr<std::int32_t> hosts_;
    Csr<std::int32_t> ranks_;
    HashIndex copies_;                     ///< of copy_keys_
    std::vector<std::int64_t> copy_keys_;  ///< from * devices + to
    std::vector<std::int32_t> copy_sets_;  ///< the same
    HashIndex groups_;                     ///< of rows of ranks_
    std::vector<std::int32_t> group_sets_;
};

/// 3 rows per device, then the machine's channels.
std::int32_t resource_count_of(const Problem& problem);

}  // namespace partita::plan
