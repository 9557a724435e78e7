// SPDX-License-Identifier: Apache-2.0
#include "rl/option_configs.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "search/configs/standard_configs.h"

namespace partita::rl {

using graph::OpId;
using graph::OpKind;
using search::ConfigId;
using search::DegreesId;
using search::MicroBatchesId;
using Degrees = search::ConfigTable::Degrees;

OptionConfigs::OptionConfigs(search::SearchSpace& space, const Decisions& decisions)
    : space_(space), decisions_(decisions), found_(space.problem().graph().op_count()) {}

std::vector<OptionConfig> OptionConfigs::find(std::size_t decision, const LeadConfig& lead,
                                              MicroBatchesId micro_batches_id) {
    search::ConfigTable& table = space_.table();
    for (const OpId op : decisions_.ops[decision]) {
        found_[op.index()] = table.on_one_device(op, lead.config.devices);
    }
    if (table.sets().size(lead.config.devices) > 1) {
        split_groups(decision, lead, micro_batches_id);
        split_ends(decision, micro_batches_id);
    }
    std::vector<OptionConfig> configs;
    configs.reserve(decisions_.ops[decision].size());
    for (const OpId op : decisions_.ops[decision]) configs.push_back({op, found_[op.index()]});
    return configs;
}

void OptionConfigs::split_groups(std::size_t decision, const LeadConfig& lead,
                                 MicroBatchesId micro_batches_id) {
    search::ConfigTable& table = space_.table();
    search::PropagationTable& propagation = space_.propagation();
    const auto& groups = decisions_.groups[decision];
    for (const std::uint32_t group : groups) {
        const OpId leader = groups.size() == 1
                                ? lead.op
                                : space_.leader(space_.groups().groups().members[group].front());
        if (!leader.valid()) continue;
        const DegreesId degrees =
            leader == lead.op ? lead.config.degrees : most_alike(leader, lead, micro_batches_id);
        if (degrees == 0 || !table.may_use(leader, lead.config.devices)) continue;
        found_[leader.index()] = {degrees, lead.config.devices};
        for (const search::EndId id : propagation.way_through_group(leader)) {
            const search::End& end = propagation.end(id);
            found_[end.to.index()] =
                propagation.propagate(id, found_[end.from.index()], micro_batches_id);
        }
    }
}

/// Parameters, inputs and outputs that the decision places.
void OptionConfigs::split_ends(std::size_t decision, MicroBatchesId micro_batches_id) {
    search::PropagationTable& propagation = space_.propagation();
    const plan::Problem& problem = space_.problem();
    const auto here = static_cast<std::int32_t>(decision);
    for (const OpId op : decisions_.ops[decision]) {
        if (decisions_.of_op[op.index()] != here || !problem.facts().has_forward(op)) continue;
        for (const auto& ends : {propagation.sources(op), propagation.outputs(op)}) {
            for (const search::EndId id : ends) {
                const OpId to = propagation.end(id).to;
                if (decisions_.of_op[to.index()] != here) continue;
                found_[to.index()] =
                    propagation.propagate(id, found_[op.index()], micro_batches_id);
                if (problem.graph().op(to).kind == OpKind::output)
                    share_output(to, micro_batches_id);
            }
        }
    }
}

/// Of the degrees that this op may have on as many devices: those of the kind that is most alike.
DegreesId OptionConfigs::most_alike(OpId op, const LeadConfig& lead,
                                    MicroBatchesId micro_batches_id) {
    const int size = space_.table().sets().size(lead.config.devices);
    DegreesId best = 0;
    int least = -1;
    std::vector<std::array<AxisClass, 2>> seen;
    for (const Degrees& degrees : space_.table().degrees(op, size)) {
        Kind kind = kind_of(space_.problem(), op, degrees);
        kind.ordinal = static_cast<std::uint8_t>(std::ranges::count(seen, kind.axes));
        seen.push_back(kind.axes);
        const DegreesId id = space_.table().degree_lists().id(op, degrees);
        const int away = distance(kind, lead.kind);
        if ((least >= 0 && away >= least) ||
            !space_.table().is_legal_split(op, id, micro_batches_id))
            continue;
        least = away;
        best = id;
    }
    return best;
}

/// An output that would be repeated on all devices, as after a split reduction, is split along the
/// batch.
void OptionConfigs::share_output(OpId output, MicroBatchesId micro_batches_id) {
    search::ConfigTable& table = space_.table();
    const ConfigId repeated = found_[output.index()];
    const Degrees& degrees = table.degree_lists().degrees(output, repeated.degrees);
    const bool all = std::ranges::all_of(degrees, &plan::Axis::is_replica);
    if (degrees.empty() || !all) return;
    const Degrees batch =
        search::batch_axes(space_.problem(), output, table.sets().size(repeated.devices));
    if (batch.empty()) return;
    const ConfigId shared{table.degree_lists().id(output, batch), repeated.devices};
    if (table.is_legal(output, shared, micro_batches_id)) found_[output.index()] = shared;
}

}  // namespace partita::rl
