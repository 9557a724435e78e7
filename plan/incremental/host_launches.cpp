// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/host_launches.h"

#include <algorithm>
#include <limits>

namespace partita::plan {

void HostLaunches::keep(std::size_t from, std::span<const std::int64_t> starts,
                        std::span<const std::int32_t> resource_sets) {
    const std::size_t hosts = graph_.host_count();
    const std::size_t blocks = (launches_.size() + kStride - 1) / kStride;
    const std::size_t first = (from > 0 ? from - 1 : 0) / kStride;
    before_.resize(blocks * hosts);
    slack_.resize(blocks * hosts);
    least_.resize(blocks * hosts);
    found_.assign(hosts, 0);
    if (first > 0)
        std::copy_n(before_.begin() + static_cast<std::ptrdiff_t>(first * hosts), hosts,
                    found_.begin());
    for (std::size_t i = first * kStride; i < launches_.size(); ++i) {
        std::int64_t* const slack = slack_.data() + i / kStride * hosts;
        if (i % kStride == 0) {
            std::copy_n(found_.begin(), hosts,
                        before_.begin() + static_cast<std::ptrdiff_t>(i / kStride * hosts));
            std::fill_n(slack, hosts, std::numeric_limits<std::int64_t>::max());
        }
        for (const std::int32_t device : graph_.hosts(resource_sets[i])) {
            const auto d = static_cast<std::size_t>(device);
            found_[d] += launches_[i];
            slack[d] = std::min(slack[d], starts[i] - found_[d]);
        }
    }
    for (std::size_t at = blocks * hosts; at-- > 0;) {
        const bool is_last = at + hosts >= blocks * hosts;
        least_[at] = is_last ? slack_[at] : std::min(slack_[at], least_[at + hosts]);
    }
}

/// What the hosts have launched before a position of the accepted timeline.
void HostLaunches::find_before(std::size_t position, std::span<const std::int32_t> resource_sets) {
    const std::size_t hosts = graph_.host_count();
    found_.assign(hosts, 0);
    if (launches_.empty()) return;
    const std::size_t block = std::min(position, launches_.size() - 1) / kStride;
    std::copy_n(before_.begin() + static_cast<std::ptrdiff_t>(block * hosts), hosts,
                found_.begin());
    for (std::size_t i = block * kStride; i < position; ++i) {
        for (const std::int32_t device : graph_.hosts(resource_sets[i]))
            found_[static_cast<std::size_t>(device)] += launches_[i];
    }
}

void HostLaunches::restart(std::size_t position, std::span<const std::int32_t> resource_sets) {
    find_before(position, resource_sets);
    launched_.resize(found_.size());
    std::ranges::transform(found_, offsets_, launched_.begin(), std::plus<>{});
}

void HostLaunches::launch(const SlotGraph::Node& node) {
    for (const std::int32_t device : graph_.hosts(node.resource_set))
        launched_[static_cast<std::size_t>(device)] += node.launch;
}

bool HostLaunches::follows(std::size_t position, std::int64_t old_now, std::int64_t now,
                           std::span<const std::int32_t> resource_sets) {
    find_before(position, resource_sets);
    const std::size_t hosts = found_.size();
    const std::int64_t* const least = least_.data() + position / kStride * hosts;
    const std::int64_t shift = now - old_now;
    for (std::size_t d = 0; d < hosts; ++d) {
        const std::int64_t later = launched_[d] - found_[d] - shift;
        if (later == 0) continue;
        if (later < 0 && found_[d] > old_now) return false;
        if (least[d] < std::max<std::int64_t>(later, 0)) return false;
    }
    std::ranges::transform(launched_, found_, offsets_.begin(), std::minus<>{});
    return true;
}

}  // namespace partita::plan
