// SPDX-License-Identifier: Apache-2.0
#include "search/moves/copy_config.h"

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "search/follow.h"
#include "search/moves/target.h"

namespace partita::search {

using graph::OpId;

namespace {

enum class Way : std::uint8_t { forward, backward, both };

/// Gives the config of `first` to `count` computing ops around it, the nearest first.
bool copy_around(const plan::Problem& problem, OpId first, Way way, std::size_t count,
                 Draft& draft) {
    std::vector<OpId> reached{first};
    std::vector<char> known(problem.graph().op_count(), 0);
    known[first.index()] = 1;
    for (std::size_t i = 0; i < reached.size() && reached.size() <= count; ++i) {
        const OpId from = reached[i];
        for (const Link& link : links_of(problem, from)) {
            const bool forward = link.producer == from;
            const OpId to = forward ? link.reader : link.producer;
            const bool wanted = way == Way::both || forward == (way == Way::forward);
            if (!wanted || known[to.index()] != 0 || !problem.has_forward(to)) continue;
            if (reached.size() > count) break;
            known[to.index()] = 1;
            draft.set(to, follow(problem, link, from, draft.config(from), draft.micro_batches()));
            reached.push_back(to);
        }
    }
    return reached.size() > 1;
}

}  // namespace

std::optional<double> copy_config(SearchSpace& space, Random& random, Draft& draft) {
    const OpId op = space.draw_op(random);
    const Way way = std::array{Way::forward, Way::backward, Way::both}[random.below(3)];
    const auto sizes = static_cast<std::uint64_t>(std::bit_width(space.computing().size()));
    const std::size_t count = std::size_t{1} << random.below(sizes);
    const std::uint64_t kind = random.below(4);
    double log_ratio = 0;
    if (kind < 2) {
        const plan::DeviceSet devices =
            kind == 0 ? draw_devices(space, op, random) : draft.config(op).devices;
        log_ratio = draw_degrees(space, op, devices, random, draft);
    }
    const bool copied = copy_around(space.problem(), op, way, count, draft);
    return copied || kind < 2 ? std::optional(log_ratio) : std::nullopt;
}

}  // namespace partita::search
