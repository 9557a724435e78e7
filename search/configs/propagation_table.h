// SPDX-License-Identifier: Apache-2.0
//
// What is next to what, and what follows what (layout_propagation.h), by number and remembered: the
// degrees that a neighbour takes over depend on the degrees, the link and the number of
// micro-batches alone, unless one of the two may not use all devices.
//
// Each link has two ends, one for either direction: an op, what it leads to, and which way.
//
// Threads: fills itself, so one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/csr.h"
#include "search/coarsening/op_groups.h"
#include "search/configs/config_table.h"
#include "search/configs/degrees_memo.h"
#include "search/configs/layout_propagation.h"

namespace partita::search {

using EndId = std::uint32_t;

struct End {
    graph::OpId from;
    graph::OpId to;
    bool forward = false;   ///< `to` reads what `from` makes
    bool computes = false;  ///< `to` runs something forward
};

class PropagationTable {
public:
    /// All must outlive it.
    PropagationTable(const plan::Problem& problem, const OpGroups& groups, ConfigTable& table);

    /// In the order of links_of(); numbered from first_end(op) on.
    [[nodiscard]] std::span<const End> ends(graph::OpId op) const {
        return {ends_.data() + first_[op.index()], first_[op.index() + 1] - first_[op.index()]};
    }
    [[nodiscard]] EndId first_end(graph::OpId op) const { return first_[op.index()]; }
    [[nodiscard]] const End& end(EndId id) const { return ends_[id]; }
    [[nodiscard]] const Link& link(EndId id) const { return links_[id]; }

    /// The config of the op at the other end when the one at this end has `config`. Legal.
    ConfigId propagate(EndId end, ConfigId config, MicroBatchesId micro_batches_id) {
        const graph::OpId to = ends_[end].to;
        if (table_.sets().size(config.devices) == 1) {
            return table_.on_one_device(to, config.devices);
        }
        const auto degrees = propagated(end, config.degrees, micro_batches_id);
        if (!degrees || !table_.may_use(to, config.devices)) {
            return table_.on_one_device(to, config.devices);
        }
        return {*degrees, config.devices};
    }

    /// The ends by which the op leads to outputs of the network.
    [[nodiscard]] std::span<const EndId> outputs(graph::OpId op) const {
        return outputs_[op.index()];
    }
    /// The ends by which the op, which computes, leads to sources (inputs, parameters, constants)
    /// whose leading reader it is.
    [[nodiscard]] std::span<const EndId> sources(graph::OpId op) const {
        return sources_[op.index()];
    }
    /// The end by which its leading reader leads to a source; nullopt for other ops and where there
    /// is none.
    [[nodiscard]] std::optional<EndId> leading_end(graph::OpId source) const {
        const EndId end = leading_ends_[source.index()];
        return end == kNoEnd ? std::nullopt : std::optional(end);
    }
    /// Computing ops that make operands of this one, rising.
    [[nodiscard]] std::span<const graph::OpId> predecessors(graph::OpId op) const {
        return predecessors_[op.index()];
    }
    /// A way through the computing ops of the op's group, from neighbour to neighbour.
    std::span<const EndId> way_through_group(graph::OpId op);

private:
    static constexpr EndId kNoEnd = std::numeric_limits<EndId>::max();

    void find_ends();
    void find_sources();
    void find_predecessors();
    [[nodiscard]] std::vector<EndId> find_way(graph::OpId op) const;
    /// Nullopt: whole, on one device.
    std::optional<DegreesId> propagated(EndId end, DegreesId degrees,
                                        MicroBatchesId micro_batches_id) {
        return propagated_.find_once(micro_batches_id, end, degrees, [&] {
            return find_propagated(end, degrees, micro_batches_id);
        });
    }
    std::optional<DegreesId> find_propagated(EndId end, DegreesId degrees,
                                             MicroBatchesId micro_batches_id);

    const plan::Problem& problem_;
    const OpGroups& groups_;
    ConfigTable& table_;
    std::vector<std::uint32_t> first_;  ///< per op, and the number of all
    std::vector<End> ends_;
    std::vector<Link> links_;  ///< of each end
    Csr<EndId> outputs_;
    Csr<EndId> sources_;
    std::vector<EndId> leading_ends_;  ///< per op
    Csr<graph::OpId> predecessors_;
    std::vector<std::optional<std::vector<EndId>>> ways_;
    DegreesMemo propagated_;  ///< by end and degrees at this end: those at the other one
};

}  // namespace partita::search
