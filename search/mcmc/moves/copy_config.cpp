// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/copy_config.h"

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/index_set.h"
#include "search/configs/propagation_table.h"
#include "search/mcmc/moves/target.h"

namespace partita::search {

using graph::OpId;

namespace {

enum class Way : std::uint8_t { forward, backward, both };

/// Gives the config of `first` to `count` computing ops around it, the nearest first.
bool copy_around(PropagationTable& propagation, OpId first, Way way, std::size_t count,
                 ProposalBuilder& builder) {
    std::vector<OpId>& reached = builder.reached();
    IndexSet& known = builder.marks();
    reached.assign(1, first);
    known.insert(first.index());
    for (std::size_t i = 0; i < reached.size() && reached.size() <= count; ++i) {
        const OpId from = reached[i];
        EndId id = propagation.first_end(from);
        for (const End& end : propagation.ends(from)) {
            const EndId present = id++;
            const bool wanted = way == Way::both || end.forward == (way == Way::forward);
            if (!wanted || !end.computes || known.contains(end.to.index())) continue;
            if (reached.size() > count) break;
            known.insert(end.to.index());
            builder.set(end.to, propagation.propagate(present, builder.config(from),
                                                      builder.micro_batches_id()));
            reached.push_back(end.to);
        }
    }
    known.clear();
    return reached.size() > 1;
}

}  // namespace

std::optional<double> copy_config(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    const OpId op = space.draw_op(random);
    const Way way = std::array{Way::forward, Way::backward, Way::both}[random.below(3)];
    const auto sizes = static_cast<std::uint64_t>(std::bit_width(space.computing().size()));
    const std::size_t count = std::size_t{1} << random.below(sizes);
    const std::uint64_t kind = random.below(4);
    double log_ratio = 0;
    if (kind < 2) {
        const DevicesId devices =
            kind == 0 ? space.table().draw_devices(op, random) : builder.config(op).devices;
        log_ratio = draw_degrees(space, op, devices, random, builder);
    }
    const bool copied = copy_around(space.propagation(), op, way, count, builder);
    return copied || kind < 2 ? std::optional(log_ratio) : std::nullopt;
}

}  // namespace partita::search
