// SPDX-License-Identifier: Apache-2.0
#include "rl/action_space.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::rl {

using graph::OpId;
using plan::DeviceSet;
using plan::Problem;
using search::DegreesId;
using Degrees = search::ConfigTable::Degrees;

namespace {

/// Bits of Option::legal.
constexpr std::size_t kMostIterations = 64;

}  // namespace

ActionSpace::ActionSpace(const search::GroupGraph& groups, ActionSpaceOptions options)
    : space_(groups),
      limits_(options),
      decisions_(make_decisions(space_, options.most_decisions)),
      option_configs_(space_, decisions_),
      of_(decisions_.size()) {
    for (std::size_t d = 0; d < size(); ++d) {
        find_lead(d);
        for (const DeviceSet& set : device_sets(d)) of_[d].sets.push_back(block(set));
    }
    find_iterations();
    for (std::size_t d = 0; d < size(); ++d) find_options(d);
}

/// The problem's own first; then every number of micro-batches, in the order it comes in and one
/// after the other (1F1B), with every sharding of parameters, as far as the search may choose.
void ActionSpace::find_iterations() {
    std::vector<plan::Policy> policies{problem().policy()};
    for (const int count : problem().batch().micro_batch_choices()) {
        plan::Policy policy = problem().policy();
        policy.micro_batches = count;
        for (const bool ordered : {false, true}) {
            if (ordered && count == 1) continue;
            if (ordered) policy.schedule = search::kPipelineOrder;
            const bool known = std::ranges::find(policies, policy) != policies.end();
            if (!known && problem().batch().allows(policy)) policies.push_back(policy);
        }
    }
    const bool splits = std::ranges::any_of(blocks_, [](const Block& of) { return of.size() > 1; });
    for (const search::ParameterSharding sharding :
         {search::ParameterSharding::as_read, search::ParameterSharding::updates_in_shards,
          search::ParameterSharding::in_shards}) {
        if (sharding != search::ParameterSharding::as_read &&
            (space_.parameters().empty() || !splits))
            continue;
        for (const plan::Policy& policy : policies) {
            if (iterations_.size() < kMostIterations) iterations_.push_back({policy, sharding});
        }
    }
    for (const Iteration& iteration : iterations_) {
        micro_batches_ids_.push_back(
            space_.table().micro_batches_id(iteration.policy.micro_batches));
        micro_batches_id_count_ = std::max(micro_batches_id_count_, micro_batches_ids_.back() + 1);
    }
}

std::int32_t ActionSpace::block(const DeviceSet& devices) {
    const plan::OpConfig whole{.axes = {}, .devices = devices};
    const auto id =
        static_cast<std::size_t>(space_.table().id(OpId(std::size_t{0}), whole).devices);
    if (block_of_.size() <= id) block_of_.resize(id + 1, -1);
    if (block_of_[id] < 0) {
        block_of_[id] = static_cast<std::int32_t>(blocks_.size());
        Block& block = blocks_.emplace_back();
        block.id = static_cast<search::DevicesId>(id);
        block.set = devices;
        for (int i = 0; i < devices.size(); ++i) block.devices.push_back(devices[i]);
    }
    return block_of_[id];
}

/// One device each, then larger sets; where these are too many, as many of each size, the first
/// ones.
std::vector<DeviceSet> ActionSpace::device_sets(std::size_t decision) {
    const std::uint32_t group = decisions_.groups[decision].front();
    const std::vector<int>& allowed = space_.groups().devices(group);
    std::vector<std::vector<DeviceSet>> by_size(1);
    for (const int device : allowed) by_size[0].push_back(DeviceSet::single(device));
    const OpId lead = of_[decision].lead;
    const bool splits = lead.valid() && decisions_.whole[decision] == 0;
    for (const int size : splits ? space_.table().sizes(lead) : std::vector<int>{}) {
        if (size == 1) continue;
        by_size.emplace_back();
        for (const DeviceSet& set : space_.table().device_sets(lead, size)) {
            bool inside = true;
            for (int i = 0; i < set.size(); ++i) {
                inside = inside && std::ranges::binary_search(allowed, set[i]);
            }
            if (inside) by_size.back().push_back(set);
        }
    }
    const std::size_t most = std::max<std::size_t>(1, limits_.most_blocks / by_size.size());
    std::vector<DeviceSet> sets;
    for (const auto& of_size : by_size) {
        const std::size_t count = std::min(of_size.size(), most);
        sets.insert(sets.end(), of_size.begin(),
                    of_size.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return sets;
}

void ActionSpace::find_lead(std::size_t decision) {
    OfDecision& of = of_[decision];
    for (const OpId op : ops(decision)) {
        if (!problem().facts().has_forward(op)) continue;
        if (!of.lead.valid() ||
            problem().bounds().best_time(op) > problem().bounds().best_time(of.lead))
            of.lead = op;
    }
}

void ActionSpace::find_options(std::size_t decision) {
    OfDecision& of = of_[decision];
    for (const std::int32_t block : of.sets) add_place(of, block);
    of.configs.resize(of.options.size() * micro_batches_id_count_);
}

void ActionSpace::add_place(OfDecision& of, std::int32_t block) {
    const int size = blocks_[static_cast<std::size_t>(block)].size();
    const auto begin = static_cast<std::int32_t>(of.options.size());
    if (size == 1) {
        of.options.push_back({.block = block, .legal = ~std::uint64_t{0}});
    } else {
        for (const Option& option : kinds(of.lead, size, block)) of.options.push_back(option);
    }
    const auto end = static_cast<std::int32_t>(of.options.size());
    if (end > begin) of.places.push_back({.block = block, .begin = begin, .end = end});
}

std::vector<Option> ActionSpace::kinds(OpId op, int size, std::int32_t block) {
    std::vector<Option> kinds;
    for (const Degrees& degrees : space_.table().degrees(op, size)) {
        if (kinds.size() == limits_.most_kinds) break;
        Option option{.block = block,
                      .kind = kind_of(problem(), op, degrees),
                      .degrees = space_.table().degree_lists().id(op, degrees)};
        option.legal = legal_iterations(op, option.degrees);
        if (option.legal == 0) continue;
        option.kind.ordinal = static_cast<std::uint8_t>(std::ranges::count(
            kinds, option.kind.axes, [](const Option& other) { return other.kind.axes; }));
        kinds.push_back(option);
    }
    return kinds;
}

std::uint64_t ActionSpace::legal_iterations(OpId op, DegreesId degrees) {
    std::uint64_t legal = 0;
    for (std::size_t p = 0; p < iterations_.size(); ++p) {
        if (space_.table().is_legal_split(op, degrees, micro_batches_ids_[p]))
            legal |= std::uint64_t{1} << p;
    }
    return legal;
}

std::size_t ActionSpace::place_of(std::size_t decision, std::int32_t option) const {
    const std::span<const Place> places = this->places(decision);
    const auto at = std::ranges::find_if(
        places, [&](const Place& of) { return of.begin <= option && option < of.end; });
    return static_cast<std::size_t>(at - places.begin());
}

const std::vector<OptionConfig>& ActionSpace::configs(std::size_t decision, std::size_t option,
                                                      std::size_t iteration) {
    OfDecision& of = of_[decision];
    const search::MicroBatchesId micro_batches_id = micro_batches_ids_[iteration];
    std::vector<OptionConfig>& known =
        of.configs[option * micro_batches_id_count_ + micro_batches_id];
    if (known.empty()) {
        const search::DevicesId devices = block_of(decision, option).id;
        const Option& own = of.options[option];
        known = option_configs_.find(decision, {of.lead, {own.degrees, devices}, own.kind},
                                     micro_batches_id);
    }
    return known;
}

plan::Strategy ActionSpace::strategy(std::size_t iteration, std::span<const std::int32_t> options) {
    plan::Strategy strategy;
    strategy.policy = iterations_[iteration].policy;
    strategy.ops.resize(decisions_.of_op.size());
    for (std::size_t d = 0; d < size(); ++d) {
        for (const OptionConfig& own :
             configs(d, static_cast<std::size_t>(options[d]), iteration)) {
            strategy.ops[own.op.index()].config = space_.table().config(own.op, own.config);
        }
    }
    for (std::size_t i = 0; i < decisions_.of_op.size(); ++i) {
        if (decisions_.of_op[i] >= 0) continue;
        const int device = problem().constraints().allowed_devices(OpId(i)).front();
        strategy.ops[i].config = {.axes = {}, .devices = DeviceSet::single(device)};
    }
    keep_parameters(iterations_[iteration], strategy);
    plan::apply_recompute(problem().facts().recompute(), strategy);
    assert(!plan::find_fault(problem(), strategy) ||
           strategy.policy.schedule.kind != plan::ScheduleKind::none);
    return strategy;
}

/// Parameters lie as they are read so far. The gradients of several micro-batches add up where they
/// arise, unless updates are in shards.
void ActionSpace::keep_parameters(const Iteration& iteration, plan::Strategy& strategy) {
    const bool as_read = iteration.sharding == search::ParameterSharding::as_read;
    const int count = iteration.policy.micro_batches;
    if ((as_read && count == 1) || space_.parameters().empty()) return;
    const search::MicroBatchesId micro_batches_id = space_.table().micro_batches_id(count);
    for (const OpId op : space_.parameters()) {
        plan::OpDecision& decision = strategy.ops[op.index()];
        decision.update.accumulate_locally = count > 1;
        if (as_read || !space_.partners(op).empty() || decision.config.devices.size() == 1)
            continue;
        const search::ConfigId read = space_.table().id(op, decision.config);
        const auto sharded =
            space_.parameter_shardings().sharded(op, read, iteration.sharding, micro_batches_id);
        if (!sharded) continue;
        decision = space_.table().decision(op, *sharded);
    }
}

/// Of the iterations that go as the strategy's, the one that keeps most parameters as it does;
/// ties: the first.
std::size_t ActionSpace::nearest_iteration(const plan::Strategy& strategy,
                                           std::span<const std::int32_t> options) {
    std::size_t best = 0;
    std::ptrdiff_t most = -1;
    for (std::size_t i = 0; i < iterations_.size(); ++i) {
        if (!(iterations_[i].policy == strategy.policy)) continue;
        const plan::Strategy own = this->strategy(i, options);
        const std::ptrdiff_t alike = std::ranges::count_if(space_.parameters(), [&](OpId op) {
            return own.ops[op.index()] == strategy.ops[op.index()];
        });
        if (alike <= most) continue;
        most = alike;
        best = i;
    }
    return best;
}

std::int32_t ActionSpace::option_like(std::size_t decision, const DeviceSet& devices,
                                      const Kind& kind, DegreesId degrees,
                                      std::size_t iteration) const {
    constexpr int kOtherSize = 1'000;
    constexpr int kOtherDevices = 100;
    std::int32_t best = -1;
    int least = 0;
    const std::span<const Option> options = this->options(decision);
    for (std::size_t o = 0; o < options.size(); ++o) {
        if (!is_legal(decision, o, iteration)) continue;
        const DeviceSet& own = block_of(decision, o).set;
        int away = own.size() != devices.size() ? kOtherSize : 0;
        if (!(own == devices)) away += kOtherDevices;
        if (options[o].degrees != degrees) away += 1 + distance(options[o].kind, kind);
        if (best >= 0 && away >= least) continue;
        best = static_cast<std::int32_t>(o);
        least = away;
    }
    return best;
}

ActionSpace::Choices ActionSpace::nearest(const plan::Strategy& strategy) {
    Choices choices;
    const auto same = [&](const Iteration& of) { return of.policy == strategy.policy; };
    const auto at = std::ranges::find_if(iterations_, same);
    if (at != iterations_.end())
        choices.iteration = static_cast<std::size_t>(at - iterations_.begin());
    for (std::size_t d = 0; d < size(); ++d) {
        const OpId op = of_[d].lead.valid() ? of_[d].lead : ops(d).front();
        const plan::OpConfig& wanted = strategy.config(op);
        const Kind kind = kind_of(problem(), op, wanted.axes);
        const DegreesId degrees = space_.table().id(op, wanted).degrees;
        choices.options.push_back(option_like(d, wanted.devices, kind, degrees, choices.iteration));
    }
    if (at != iterations_.end()) choices.iteration = nearest_iteration(strategy, choices.options);
    return choices;
}

}  // namespace partita::rl
