// SPDX-License-Identifier: Apache-2.0
#include "rl/episodes.h"

#include <algorithm>

namespace partita::rl {

Episodes::Episodes(const ActionSpace& space, std::int64_t episodes)
    : steps(static_cast<std::int64_t>(space.size())), count(episodes) {
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
}

}  // namespace partita::rl
