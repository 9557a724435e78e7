// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_collectives.h"

#include <algorithm>

#include "base/small_vector.h"

namespace partita::plan {

using cost::Collective;

namespace {

/// More of them than fit are rare.
using Numbers = SmallVector<std::int32_t, 32>;

bool is_distinct(const Numbers& sorted) {
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

Numbers sorted(std::span<const int> numbers) {
    Numbers copy(numbers.begin(), numbers.end());
    std::sort(copy.begin(), copy.end());
    return copy;
}

bool same_devices(std::span<const int> a, std::span<const int> b) {
    if (a.size() != b.size()) return false;
    const Numbers all = sorted(a);
    return is_distinct(all) && (std::equal(a.begin(), a.end(), b.begin()) || all == sorted(b));
}

}  // namespace

SideShape shape_of(std::span<const Piece> pieces, std::span<const int> devices,
                   const RegionTable& regions) {
    SideShape shape{.devices = devices};
    for (const Piece& piece : pieces) {
        shape.same_region = shape.same_region && piece.region == pieces[0].region;
        shape.same_summand = shape.same_summand && piece.summand == pieces[0].summand;
        shape.largest = std::max(shape.largest, regions.volume(piece.region));
        shape.sum += regions.volume(piece.region);
    }
    shape.distinct_summands = pieces.size() == 1;
    if (shape.same_summand) return shape;
    Numbers summands;
    for (const Piece& piece : pieces) summands.push_back(piece.summand);
    shape.distinct_summands = is_distinct(sorted({summands.data(), summands.size()}));
    return shape;
}

std::optional<NamedGroup> name_of_group(const SideShape& from, const SideShape& to,
                                        const Exchange& exchange) {
    const auto sources = static_cast<std::int64_t>(from.devices.size());
    const auto targets = static_cast<std::int64_t>(to.devices.size());
    const bool addends = sources > 1 && from.same_region && from.distinct_summands;
    const bool disjoint = from.same_summand && to.sum > 0;
    if (exchange.elements != (addends ? sources : 1) * to.sum) return std::nullopt;
    if (same_devices(from.devices, to.devices) && sources > 1) {
        if (addends && to.same_region && to.largest == from.largest) {
            return NamedGroup{Collective::all_reduce, from.largest};
        }
        if (addends && to.sum == from.largest) {
            return NamedGroup{Collective::reduce_scatter, targets * to.largest};
        }
        if (disjoint && to.same_region && from.sum == to.largest) {
            return NamedGroup{Collective::all_gather, sources * from.largest};
        }
        const bool everybody = exchange.pairs == sources * targets;
        const std::int64_t most = std::max(from.largest, to.largest);
        if (disjoint && everybody && from.sum == to.sum && exchange.most_given <= most) {
            return NamedGroup{Collective::all_to_all, most};
        }
    }
    if (sources == 1 && targets > 1) {
        if (to.same_region && to.largest == from.largest) {
            return NamedGroup{Collective::broadcast, from.largest};
        }
        if (!to.same_region && to.sum <= from.sum) {
            return NamedGroup{Collective::scatter, (targets + 1) * to.largest};
        }
    }
    if (targets == 1 && sources > 1) {
        if (addends && to.largest == from.largest) {
            return NamedGroup{Collective::reduce, from.largest};
        }
        if (disjoint && from.sum == to.largest) {
            const bool root_gives = std::find(from.devices.begin(), from.devices.end(),
                                              to.devices[0]) != from.devices.end();
            return NamedGroup{Collective::gather, (sources + (root_gives ? 0 : 1)) * from.largest};
        }
    }
    return std::nullopt;
}

bool gives_a_part(Collective collective) {
    return collective == Collective::scatter || collective == Collective::reduce_scatter ||
           collective == Collective::all_to_all;
}

bool gets_from_many(Collective collective) {
    return collective == Collective::gather || collective == Collective::all_gather ||
           collective == Collective::all_to_all;
}

bool has_root_at_source(Collective collective) {
    return collective == Collective::broadcast || collective == Collective::scatter;
}

bool has_root_at_target(Collective collective) {
    return collective == Collective::reduce || collective == Collective::gather;
}

}  // namespace partita::plan
