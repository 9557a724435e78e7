// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/piece_incidence.h"

#include <algorithm>
#include <numeric>

namespace partita::search {

PieceIncidence make_incidence(const PieceGraph& graph) {
    PieceIncidence incidence;
    auto& offsets = incidence.pins.offsets;
    offsets.assign(graph.size + 1, 0);
    const auto count = [&](std::int32_t vertex) {
        ++offsets[static_cast<std::size_t>(vertex) + 1];
    };
    for (const PieceNet& net : graph.nets) {
        count(net.source);
        std::for_each(net.others.begin(), net.others.end(), count);
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    incidence.pins.items.resize(offsets.back());
    std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
    for (std::size_t n = 0; n < graph.nets.size(); ++n) {
        const PieceNet& net = graph.nets[n];
        const auto pin = [&](std::int32_t vertex, bool is_source) {
            incidence.pins.items[next[static_cast<std::size_t>(vertex)]++] = {
                static_cast<std::int32_t>(n), is_source};
        };
        pin(net.source, true);
        for (const std::int32_t other : net.others) pin(other, false);
        incidence.cost.push_back(net.cost);
        incidence.count.push_back(static_cast<std::int32_t>(net.others.size() + 1));
    }
    return incidence;
}

}  // namespace partita::search
