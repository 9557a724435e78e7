// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_table.h"

#include <algorithm>
#include <cmath>

#include "plan/problem/micro_batches.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::DeviceSet;
using plan::Problem;

ConfigTable::ConfigTable(const Problem& problem)
    : problem_(problem),
      blocks_(blocks_of_factors(problem)),
      classes_(problem, blocks_),
      degree_lists_(problem),
      sets_(problem.device_count()),
      all_sets_(device_set_choices(problem, sets_)),
      of_class_(classes_.size()) {
    const auto all = static_cast<std::size_t>(problem.device_count());
    for (std::size_t i = 0; i < of_class_.size(); ++i) {
        OfClass& of = of_class_[i];
        of.example = classes_.example(i);
        of.is_restricted = problem.constraints().allowed_devices(of.example).size() != all;
    }
    micro_batches_id(problem.policy().micro_batches);
}

const std::vector<int>& ConfigTable::sizes(OpId op) {
    OfClass& of = class_of(op);
    if (of.sizes) return *of.sizes;
    std::vector<int>& sizes = of.sizes.emplace();
    for (const auto& [size, sets] : all_sets_) {
        if (!sets_of(of, size).sets.empty() && !degrees_of(of, size).degrees().empty()) {
            sizes.push_back(size);
        }
    }
    return sizes;
}

const DeviceSetChoices& ConfigTable::sets_of(OfClass& of, int size) {
    static const DeviceSetChoices kNone;
    const auto all = all_sets_.find(size);
    if (all == all_sets_.end()) return kNone;
    if (!of.is_restricted) return all->second;
    const auto [own, is_new] = of.own_sets.try_emplace(size);
    for (std::size_t i = 0; is_new && i < all->second.ids.size(); ++i) {
        if (!may_use_all(of, all->second.ids[i])) continue;
        own->second.sets.push_back(all->second.sets[i]);
        own->second.ids.push_back(all->second.ids[i]);
    }
    return own->second;
}

const DegreeChoices& ConfigTable::degrees_of(OfClass& of, int size) {
    const auto known = of.degrees.find(size);
    if (known != of.degrees.end()) return known->second;
    const std::vector<FactorBlocks>& blocks = blocks_[of.example.index()];
    return of.degrees
        .emplace(size, DegreeChoices(problem_, of.example, size, blocks, degree_lists_))
        .first->second;
}

bool ConfigTable::may_use_all(OfClass& of, DevicesId devices) {
    if (of.may_use.size() <= at(devices)) of.may_use.resize(at(devices) + 1);
    std::optional<bool>& known = of.may_use[at(devices)];
    if (known) return *known;
    const std::vector<int>& allowed = problem_.constraints().allowed_devices(of.example);
    const DeviceSet& set = sets_[devices];
    bool all = sets_.is_valid(devices);
    for (int i = 0; i < set.size() && all; ++i) {
        all = std::binary_search(allowed.begin(), allowed.end(), set[i]);
    }
    known = all;
    return all;
}

ConfigId ConfigTable::find_one_device(OpId op, DevicesId devices) {
    return id(op, search::on_one_device(problem_, op, sets_[devices]));
}

ConfigTable::Split& ConfigTable::split(OfClass& of, DegreesId degrees) {
    if (of.splits.size() <= at(degrees)) of.splits.resize(at(degrees) + 1);
    return of.splits[at(degrees)];
}

bool ConfigTable::find_legal_split(OpId op, DegreesId degrees, MicroBatchesId micro_batches_id) {
    const bool legal =
        search::is_legal_split(problem_, op, degree_lists_.degrees(op, degrees),
                               degree_lists_.size(op, degrees), micro_batches_[micro_batches_id]);
    if (micro_batches_id >= kMostMicroBatchesIds) return legal;
    Split& known = split(class_of(op), degrees);
    known.asked |= std::uint64_t{1} << micro_batches_id;
    if (legal) known.legal |= std::uint64_t{1} << micro_batches_id;
    return legal;
}

MicroBatchesId ConfigTable::micro_batches_id(int micro_batches) {
    const auto known = std::find(micro_batches_.begin(), micro_batches_.end(), micro_batches);
    const auto micro_batches_id = static_cast<MicroBatchesId>(known - micro_batches_.begin());
    if (known == micro_batches_.end()) {
        micro_batches_.push_back(micro_batches);
        legal_batch_.emplace_back();
    }
    return micro_batches_id;
}

bool ConfigTable::is_legal_batch(MicroBatchesId micro_batches_id) {
    std::optional<bool>& legal = legal_batch_[micro_batches_id];
    if (!legal) legal = !find_batch_fault(problem_.facts(), micro_batches_[micro_batches_id]);
    return *legal;
}

DevicesId ConfigTable::draw_devices(OpId op, Random& random) {
    const std::vector<int>& sizes = this->sizes(op);
    const auto& ids = sets_of(class_of(op), sizes[random.below(sizes.size())]).ids;
    return ids[random.below(ids.size())];
}

double ConfigTable::log_probability(OpId op, ConfigId config) {
    OfClass& of = class_of(op);
    Split& known = split(of, config.degrees);
    if (known.log_probability) return *known.log_probability;
    const int size = sets_.size(config.devices);
    const auto sets = static_cast<double>(sets_of(of, size).ids.size());
    const Degrees& degrees = degree_lists_.degrees(op, config.degrees);
    known.log_probability = log_probability(op, size, degrees) - std::log(std::max(sets, 1.0));
    return *known.log_probability;
}

ConfigId ConfigTable::id(OpId op, const plan::OpConfig& config) {
    return {degree_lists_.id(op, config.axes), sets_.id(config.devices)};
}

UpdateId ConfigTable::id(OpId op, const plan::UpdateConfig& update) {
    return {id(op, update.update), update.accumulate_locally, update.refetch};
}

DecisionId ConfigTable::id(OpId op, const plan::OpDecision& decision) {
    return {id(op, decision.config), id(op, decision.update), decision.recompute};
}

plan::OpConfig ConfigTable::config(OpId op, ConfigId id) const {
    return {.axes = degree_lists_.degrees(op, id.degrees), .devices = sets_[id.devices]};
}

plan::UpdateConfig ConfigTable::update(OpId op, UpdateId id) const {
    return {.update = config(op, id.update),
            .accumulate_locally = id.accumulate_locally,
            .refetch = id.refetch};
}

plan::OpDecision ConfigTable::decision(OpId op, DecisionId id) const {
    return {config(op, id.config), update(op, id.update), id.recompute};
}

}  // namespace partita::search
