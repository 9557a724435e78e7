// SPDX-License-Identifier: Apache-2.0
#include "rl/episodes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/csr.h"

namespace partita::rl {

Episodes::Episodes(const ActionSpace& space, std::int64_t episodes, std::int64_t groups)
    : steps(groups > 0 ? groups : static_cast<std::int64_t>(space.size())), count(episodes) {
    for (std::size_t d = 0; d < space.size(); ++d) {
        places = std::max(places, static_cast<std::int64_t>(space.places(d).size()));
        for (const Place& of : space.places(d)) {
            kinds = std::max<std::int64_t>(kinds, of.end - of.begin);
        }
    }
    const auto rows = static_cast<std::size_t>(steps * count);
    iteration.assign(static_cast<std::size_t>(count), 0);
    block_rows.assign(rows * static_cast<std::size_t>(places) * kBlockFeatures, 0);
    block_open.assign(rows * static_cast<std::size_t>(places), 0);
    place.assign(rows, 0);
    block.assign(rows, 0);
    kind_rows.assign(rows * static_cast<std::size_t>(kinds) * kKindFeatures, 0);
    kind_open.assign(rows * static_cast<std::size_t>(kinds), 0);
    kind.assign(rows, 0);
    if (groups == 0) return;
    assignment.assign(space.size() * static_cast<std::size_t>(count), 0);
    order = assignment;
    members.resize(static_cast<std::size_t>(count));
}

void Episodes::assign(std::int64_t episode, const std::vector<std::int64_t>& groups_of) {
    const auto groups = static_cast<std::size_t>(steps);
    std::vector<double> sums(groups, 0);
    std::vector<double> sizes(groups, 0);
    for (std::size_t d = 0; d < groups_of.size(); ++d) {
        sums[static_cast<std::size_t>(groups_of[d])] += static_cast<double>(d);
        sizes[static_cast<std::size_t>(groups_of[d])] += 1;
    }
    std::vector<std::size_t> sorted(groups);
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    const auto mean = [&](std::size_t g) {
        return sizes[g] > 0 ? sums[g] / sizes[g] : static_cast<double>(groups_of.size());
    };
    std::ranges::stable_sort(sorted, {}, mean);
    std::vector<std::int64_t> step_of(groups);
    for (std::size_t step = 0; step < groups; ++step) {
        step_of[sorted[step]] = static_cast<std::int64_t>(step);
    }
    std::vector<std::pair<std::int32_t, std::uint32_t>> placed;
    for (std::size_t d = 0; d < groups_of.size(); ++d) {
        const std::size_t at =
            d * static_cast<std::size_t>(count) + static_cast<std::size_t>(episode);
        const std::int64_t step = step_of[static_cast<std::size_t>(groups_of[d])];
        assignment[at] = groups_of[d];
        order[at] = step;
        placed.emplace_back(static_cast<std::int32_t>(step), static_cast<std::uint32_t>(d));
    }
    members[static_cast<std::size_t>(episode)] = to_csr(placed, groups);
}

void Episodes::copy(std::int64_t episode, const Episodes& from, std::int64_t from_episode) {
    const auto copy_rows = [&](auto& to, const auto& source, std::int64_t width) {
        for (std::int64_t step = 0; step < steps; ++step) {
            std::copy_n(source.begin() + (step * from.count + from_episode) * width, width,
                        to.begin() + (step * count + episode) * width);
        }
    };
    iteration[static_cast<std::size_t>(episode)] =
        from.iteration[static_cast<std::size_t>(from_episode)];
    copy_rows(block_rows, from.block_rows, places * static_cast<std::int64_t>(kBlockFeatures));
    copy_rows(block_open, from.block_open, places);
    copy_rows(place, from.place, 1);
    copy_rows(block, from.block, 1);
    copy_rows(kind_rows, from.kind_rows, kinds * static_cast<std::int64_t>(kKindFeatures));
    copy_rows(kind_open, from.kind_open, kinds);
    copy_rows(kind, from.kind, 1);
    if (!has_groups()) return;
    std::vector<std::int64_t> groups_of;
    for (std::size_t at = static_cast<std::size_t>(from_episode); at < from.assignment.size();
         at += static_cast<std::size_t>(from.count)) {
        groups_of.push_back(from.assignment[at]);
    }
    assign(episode, groups_of);
}

}  // namespace partita::rl
