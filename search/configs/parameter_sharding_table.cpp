// SPDX-License-Identifier: Apache-2.0
#include "search/configs/parameter_sharding_table.h"

#include <array>

namespace partita::search {

using graph::OpId;

HomeTable::HomeTable(const plan::Problem& problem, ConfigTable& table, FollowTable& follow)
    : problem_(problem), table_(table), follow_(follow) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        trained_.push_back(is_trained(problem, OpId(i)) ? 1 : 0);
    }
}

std::optional<DecisionId> HomeTable::keep(OpId source, ConfigId read, Home home,
                                          std::size_t phase) {
    const bool trained = trained_[source.index()] != 0;
    const bool several = table_.micro_batches(phase) > 1;
    if (home == Home::as_read) return DecisionId{read, {.accumulate_locally = trained && several}};
    const DeviceSets& sets = table_.sets();
    const int devices = sets.size(read.devices);
    if (!trained || devices == 1) return std::nullopt;
    if (home == Home::on_one_device) {
        const int device = sets[read.devices][static_cast<int>(source.index()) % devices];
        return DecisionId{table_.on_one_device(source, DeviceSets::single(device)),
                          {.accumulate_locally = several}};
    }
    if (phase >= shards_.size()) shards_.resize(phase + 1);
    if (shards_[phase].empty()) shards_[phase].resize(trained_.size());
    std::vector<DegreesId>& known = shards_[phase][source.index()];
    const auto at = static_cast<std::size_t>(read.degrees);
    if (at >= known.size()) known.resize(at + 1, kUnknown);
    if (known[at] == kUnknown) known[at] = find_shards(source, read, phase);
    if (known[at] == kNone || !table_.may_use(source, read.devices)) return std::nullopt;
    const ConfigId shards{known[at], read.devices};
    if (home == Home::updates_in_shards) return DecisionId{read, {.update = shards}};
    return DecisionId{shards, {.refetch = true}};
}

/// Of the degrees; the devices do not matter.
DegreesId HomeTable::find_shards(OpId source, ConfigId read, std::size_t phase) {
    DegreeLists& lists = table_.degree_lists();
    for (const auto& candidate :
         degrees_in_shards(problem_, source, lists.degrees(source, read.degrees))) {
        const DegreesId id = lists.id(source, candidate);
        if (table_.is_legal_split(source, id, phase)) return id;
    }
    return kNone;
}

std::optional<Home> HomeTable::home_of(EndId leading, const State& state) {
    const End& end = follow_.end(leading);
    const OpId source = end.to;
    const ConfigId read = follow_.follow(leading, state.config(end.from), state.phase());
    const UpdateId update = state.update(source);
    for (const Home home : kHomes) {
        const auto kept = keep(source, read, home, state.phase());
        // Where gradients of micro-batches add up is another question.
        const bool same = kept && kept->config == state.config(source) &&
                          kept->update.update == update.update &&
                          kept->update.refetch == update.refetch;
        if (same) return home;
    }
    return std::nullopt;
}

}  // namespace partita::search
