// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/shift_border.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "search/configs/propagation_table.h"

namespace partita::search {

using graph::OpId;

namespace {

/// A border in front of an op: a producer of one of its operands lies on another set of that size.
std::optional<DevicesId> devices_before(SearchSpace& space, const ProposalBuilder& builder,
                                        OpId op) {
    const DeviceSets& sets = space.table().sets();
    const DevicesId own = builder.config(op).devices;
    for (const OpId before : space.propagation().predecessors(op)) {
        const DevicesId devices = builder.config(before).devices;
        if (devices != own && sets.size(devices) == sets.size(own)) return devices;
    }
    return std::nullopt;
}

}  // namespace

std::optional<double> shift_border(SearchSpace& space, Random& random, ProposalBuilder& builder) {
    const std::vector<OpId>& ops = space.computing();
    // The next border from a random op on.
    const std::size_t start = random.below(ops.size());
    std::size_t at = ops.size();
    std::optional<DevicesId> before;
    for (std::size_t i = 0; i < ops.size() && !before; ++i) {
        at = (start + i) % ops.size();
        before = devices_before(space, builder, ops[at]);
    }
    if (!before) return std::nullopt;
    const DevicesId behind = builder.config(ops[at]).devices;
    const auto choices = static_cast<std::uint64_t>(std::bit_width(ops.size() / 4 + 1));
    std::uint64_t count = std::uint64_t{1} << random.below(choices);
    const bool forward = random.below(2) == 0;
    const DevicesId from = forward ? behind : *before;
    const DevicesId to = forward ? *before : behind;
    for (std::size_t i = forward ? at : at - 1; i < ops.size() && count > 0;
         forward ? ++i : --i) {  // below 0 is beyond the end
        if (builder.config(ops[i]).devices != from) continue;
        builder.set(ops[i], {builder.config(ops[i]).degrees, to});
        --count;
    }
    return 0.0;
}

}  // namespace partita::search
