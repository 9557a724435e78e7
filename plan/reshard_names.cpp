// SPDX-License-Identifier: Apache-2.0
#include "plan/reshard_names.h"

#include <algorithm>

namespace partita::plan {

using cost::Collective;

SideShape shape_of(const std::vector<Piece>& pieces, const RegionTable& regions) {
    SideShape shape;
    std::vector<std::int32_t> summands;
    for (const Piece& piece : pieces) {
        shape.devices.push_back(piece.device);
        shape.same_region = shape.same_region && piece.region == pieces[0].region;
        summands.push_back(piece.summand);
        shape.largest = std::max(shape.largest, regions.volume(piece.region));
        shape.sum += regions.volume(piece.region);
    }
    std::sort(summands.begin(), summands.end());
    shape.same_summand = summands.front() == summands.back();
    shape.distinct_summands =
        std::adjacent_find(summands.begin(), summands.end()) == summands.end();
    return shape;
}

namespace {

bool same_devices(std::vector<int> a, std::vector<int> b) {
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    return a == b && std::adjacent_find(a.begin(), a.end()) == a.end();
}

}  // namespace

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
