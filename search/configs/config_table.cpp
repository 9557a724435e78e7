// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/legality/config_legality.h"
#include "plan/problem/micro_batches.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::DeviceSet;
using plan::Problem;

namespace {

/// Divisors and powers of two up to the number of devices.
std::set<int> sizes_of(int devices, int node) {
    std::set<int> sizes;
    for (int size = 1; size <= devices; ++size) {
        const bool is_power = (size & (size - 1)) == 0;
        if (is_power || devices % size == 0 || (size <= node && node % size == 0)) {
            sizes.insert(size);
        }
    }
    return sizes;
}

bool is_among(const std::vector<int>& sorted, int value) {
    return std::binary_search(sorted.begin(), sorted.end(), value);
}

/// Lists of devices whose stretches split ops may share: all, the equal ones, and what constraints
/// leave ops, of many different lists the first.
std::vector<std::vector<int>> devices_to_share(const Problem& problem) {
    constexpr std::size_t kMostLists = 8;
    std::vector<std::vector<int>> lists;
    const auto add = [&](const std::vector<int>& devices) {
        if (std::find(lists.begin(), lists.end(), devices) == lists.end()) lists.push_back(devices);
    };
    add(usable_devices(problem));
    add(equal_devices(problem));
    if (problem.constraints().whole_ops()) return lists;
    for (std::size_t i = 0; i < problem.graph().op_count() && lists.size() < kMostLists; ++i) {
        if (problem.facts().has_forward(OpId(i)))
            add(problem.constraints().allowed_devices(OpId(i)));
    }
    return lists;
}

}  // namespace

ConfigTable::ConfigTable(const Problem& problem, ConfigTableOptions options)
    : problem_(problem),
      options_(std::move(options)),
      blocks_(blocks_of_factors(problem)),
      degree_lists_(problem),
      sets_(problem.device_count()),
      ops_(problem.graph().op_count()) {
    for (const std::vector<int>& devices : devices_to_share(problem)) add_sets(devices);
    for (auto& [size, sets] : by_size_) {
        for (const DeviceSet& set : sets.sets) sets.ids.push_back(sets_.id(set));
    }
    const auto all = static_cast<std::size_t>(problem.device_count());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        restricted_.push_back(problem.constraints().allowed_devices(OpId(i)).size() != all ? 1 : 0);
    }
    micro_batches_id(problem.policy().micro_batches);
}

void ConfigTable::add_sets(const std::vector<int>& devices) {
    for (const int size : sizes_of(static_cast<int>(devices.size()), node_size(problem_))) {
        const bool wanted = options_.sizes.empty() || is_among(options_.sizes, size);
        if (wanted && !is_too_fine(problem_, size, problem_.policy().micro_batches))
            add_size(size, devices);
    }
}

/// Stretches, and strides up to the size of a node.
void ConfigTable::add_size(int size, const std::vector<int>& devices) {
    const int count = static_cast<int>(devices.size());
    const int most_stride = size == 1 ? 1 : std::max(1, node_size(problem_));
    std::vector<DeviceSet>& sets = by_size_[size].sets;
    const auto others = static_cast<std::ptrdiff_t>(sets.size());  // of another kind of devices
    for (int stride = 1; stride <= most_stride; ++stride) {
        if (most_stride % stride != 0) continue;
        for (int block = 0; block + (size - 1) * stride < count; block += size * stride) {
            for (int first = block; first < block + stride; ++first) {
                if (first + (size - 1) * stride >= count) break;
                DeviceSet set = some_of(devices, first, size, stride);
                if (!options_.firsts.empty() && !is_among(options_.firsts, set[0])) continue;
                const auto end = sets.begin() + others;
                if (std::find(sets.begin(), end, set) == end) sets.push_back(std::move(set));
            }
        }
    }
}

ConfigTable::OfSize& ConfigTable::of(OpId op, int size) {
    std::vector<OfSize>& all = ops_[op.index()].of_size;
    const auto known = std::find_if(all.begin(), all.end(),
                                    [&](const OfSize& of_size) { return of_size.size == size; });
    if (known != all.end()) return *known;
    all.emplace_back().size = size;
    return all.back();
}

const std::vector<int>& ConfigTable::sizes(OpId op) {
    std::vector<int>& sizes = ops_[op.index()].sizes;
    if (!sizes.empty()) return sizes;
    for (const auto& [size, sets] : by_size_) {
        if (!device_sets(op, size).empty() && !degrees(op, size).empty()) sizes.push_back(size);
    }
    return sizes;
}

const ConfigTable::Sets& ConfigTable::sets_of(OpId op, int size) {
    static const Sets kNone;
    OfSize& own = of(op, size);
    if (own.sets != nullptr) return *own.sets;
    const auto all = by_size_.find(size);
    own.sets = all == by_size_.end() ? &kNone : &all->second;
    if (restricted_[op.index()] == 0 || all == by_size_.end()) return *own.sets;
    own.own_sets = std::make_unique<Sets>();
    for (std::size_t i = 0; i < all->second.ids.size(); ++i) {
        if (!may_use(op, all->second.ids[i])) continue;
        own.own_sets->sets.push_back(all->second.sets[i]);
        own.own_sets->ids.push_back(all->second.ids[i]);
    }
    return *(own.sets = own.own_sets.get());
}

const std::vector<DeviceSet>& ConfigTable::device_sets(OpId op, int size) {
    return sets_of(op, size).sets;
}

bool ConfigTable::has_all(OpId op, DevicesId devices) {
    std::vector<std::int8_t>& known = ops_[op.index()].may_use;
    if (known.size() <= at(devices)) known.resize(at(devices) + 1, -1);
    std::int8_t& may = known[at(devices)];
    if (may >= 0) return may != 0;
    const std::vector<int>& allowed = problem_.constraints().allowed_devices(op);
    const DeviceSet& set = sets_[devices];
    bool all = sets_.is_valid(devices);
    for (int i = 0; i < set.size() && all; ++i) all = is_among(allowed, set[i]);
    may = all ? 1 : 0;
    return all;
}

ConfigId ConfigTable::find_one_device(OpId op, DevicesId devices) {
    return id(op, search::on_one_device(problem_, op, sets_[devices]));
}

bool ConfigTable::find_legal(OpId op, const Degrees& degrees, int size, int micro_batches) const {
    const std::vector<int>& allowed = problem_.constraints().allowed_devices(op);
    if (static_cast<int>(allowed.size()) < size) return false;
    const plan::OpConfig config{.axes = degrees, .devices = some_of(allowed, 0, size, 1)};
    return !find_fault(problem_, op, config, micro_batches);
}

ConfigTable::Split& ConfigTable::split(OpId op, DegreesId degrees) {
    std::vector<Split>& splits = ops_[op.index()].splits;
    if (splits.size() <= at(degrees)) splits.resize(at(degrees) + 1);
    Split& split = splits[at(degrees)];
    if (split.size == 0) split.size = degree_lists_.size(op, degrees);
    return split;
}

bool ConfigTable::find_legal_split(OpId op, DegreesId degrees, MicroBatchesId micro_batches_id) {
    Split& known = split(op, degrees);
    const bool legal = find_legal(op, degree_lists_.degrees(op, degrees), known.size,
                                  micro_batches_[micro_batches_id]);
    if (micro_batches_id >= kMostMicroBatchesIds) return legal;
    known.asked |= std::uint64_t{1} << micro_batches_id;
    if (legal) known.legal |= std::uint64_t{1} << micro_batches_id;
    return legal;
}

std::size_t ConfigTable::micro_batches_id(int micro_batches) {
    const auto known = std::find(micro_batches_.begin(), micro_batches_.end(), micro_batches);
    const auto micro_batches_id = static_cast<std::size_t>(known - micro_batches_.begin());
    if (known == micro_batches_.end()) {
        micro_batches_.push_back(micro_batches);
        legal_batch_.push_back(-1);
    }
    return micro_batches_id;
}

bool ConfigTable::is_legal_batch(MicroBatchesId micro_batches_id) {
    std::int8_t& legal = legal_batch_[micro_batches_id];
    if (legal < 0)
        legal = find_batch_fault(problem_.facts(), micro_batches_[micro_batches_id]) ? 0 : 1;
    return legal != 0;
}

std::int32_t ConfigTable::class_of(OpId op) {
    std::int32_t& known = ops_[op.index()].of_class;
    if (known >= 0) return known;
    const auto next = static_cast<std::int32_t>(classes_.size());
    known = classes_.emplace(legality_of(op), next).first->second;
    return known;
}

/// All that plan/legality/config_legality.h looks at in an op to say which degrees are legal, and
/// its blocks.
std::vector<std::int64_t> ConfigTable::legality_of(OpId op) const {
    std::vector<std::int64_t> all{problem_.graph().op(op).given ? 1 : 0,
                                  problem_.facts().is_batched(op) ? 1 : 0};
    const auto add = [&](std::int64_t value) { all.push_back(value); };
    const graph::OpRule& rule = problem_.facts().rule(op);
    add(static_cast<std::int64_t>(rule.factors.size()));
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const graph::Factor& factor = rule.factors[f];
        add(static_cast<std::int64_t>(factor.name.size()));
        all.insert(all.end(), factor.name.begin(), factor.name.end());
        add(factor.extent);
        add((factor.splittable ? 1 : 0) + (factor.reduction ? 2 : 0) +
            (problem_.constraints().may_split(op, f) ? 4 : 0));
        add(static_cast<std::int64_t>(factor.combine));
    }
    for (const graph::BatchDigit& digit : problem_.facts().batch_digits(op)) {
        add(digit.stride);
        add(digit.extent);
    }
    add(static_cast<std::int64_t>(blocks_[op.index()].size()));
    for (const FactorBlocks& blocks : blocks_[op.index()]) {
        add(blocks.factor);
        add(blocks.blocks);
    }
    if (restricted_[op.index()] != 0) {
        const std::vector<int>& allowed = problem_.constraints().allowed_devices(op);
        all.insert(all.end(), allowed.begin(), allowed.end());
    }
    return all;
}

std::vector<ConfigTable::Degrees> ConfigTable::find_degrees(OpId op, int size) const {
    if (static_cast<int>(problem_.constraints().allowed_devices(op).size()) < size) return {};
    if (size == 1) return {{}};
    std::vector<Axis> axes{Axis::replicas(1)};
    for (std::size_t f = 0; f < problem_.facts().rule(op).factors.size(); ++f) {
        axes.push_back(Axis::along(f, 1));
    }
    for (const FactorBlocks& blocks : blocks_[op.index()]) {
        axes.push_back(Axis::along(blocks.factor, 1, blocks.blocks));
    }
    std::vector<Degrees> legal;
    const int micro_batches = problem_.policy().micro_batches;
    const auto add = [&](Degrees degrees) {
        if (find_legal(op, degrees, size, micro_batches)) legal.push_back(std::move(degrees));
    };
    for (const Axis& axis : axes) add({axis.with_degree(size)});
    if (options_.most_axes < 2) return legal;
    for (int major = 2; major <= size / 2; ++major) {
        if (size % major != 0) continue;
        for (const Axis& a : axes) {
            // What is illegal alone is illegal beside another.
            if (!find_legal(op, {a.with_degree(major)}, major, micro_batches)) continue;
            for (const Axis& b : axes) {
                if (a != b) add({a.with_degree(major), b.with_degree(size / major)});
            }
        }
    }
    return legal;
}

const ConfigTable::Splits& ConfigTable::splits_of(OpId op, int size) {
    OfSize& own = of(op, size);
    if (own.splits) return *own.splits;
    own.splits = std::make_unique<Splits>();
    Splits& splits = *own.splits;
    const auto [found, is_new] = degrees_.try_emplace({class_of(op), size});
    if (is_new) found->second = find_degrees(op, size);
    splits.degrees = found->second;
    for (const Degrees& degrees : splits.degrees) {
        splits.ids.push_back(degree_lists_.id(op, degrees));
        if (degrees.size() == 1) ++splits.singles;
    }
    return splits;
}

const std::vector<ConfigTable::Degrees>& ConfigTable::degrees(OpId op, int size) {
    return splits_of(op, size).degrees;
}

DevicesId ConfigTable::draw_devices(OpId op, Random& random) {
    const std::vector<int>& sizes = this->sizes(op);
    const std::vector<DevicesId>& ids = sets_of(op, sizes[random.below(sizes.size())]).ids;
    return ids[random.below(ids.size())];
}

DegreesId ConfigTable::draw_degrees(OpId op, int size, Random& random) {
    const Splits& all = splits_of(op, size);
    if (all.ids.size() == 1) return all.ids.front();
    // Either there are both kinds, or all are of the one kind.
    const bool one_axis = random.below(2) == 0;
    const std::size_t pairs = all.ids.size() - all.singles;
    const bool from_singles = pairs == 0 || (one_axis && all.singles > 0);
    return from_singles ? all.ids[random.below(all.singles)]
                        : all.ids[all.singles + random.below(pairs)];
}

double ConfigTable::log_probability(OpId op, int size, const Degrees& degrees) {
    const Splits& all = splits_of(op, size);
    const std::size_t singles = all.singles;
    const std::size_t pairs = size == 1 ? 0 : all.ids.size() - singles;
    const std::size_t own = degrees.size() > 1 ? pairs : singles;
    const double of_kind = singles > 0 && pairs > 0 ? 0.5 : 1.0;
    return std::log(of_kind / static_cast<double>(std::max<std::size_t>(own, 1)));
}

double ConfigTable::log_probability(OpId op, ConfigId config) {
    Split& known = split(op, config.degrees);
    if (known.weighed) return known.log_probability;
    const int size = sets_.size(config.devices);
    const auto sets = static_cast<double>(sets_of(op, size).ids.size());
    const double found = log_probability(op, size, degree_lists_.degrees(op, config.degrees)) -
                         std::log(std::max(sets, 1.0));
    Split& weighed = split(op, config.degrees);  // new splits may have moved it
    weighed.weighed = true;
    return weighed.log_probability = found;
}

ConfigId ConfigTable::id(OpId op, const plan::OpConfig& config) {
    return {degree_lists_.id(op, config.axes), sets_.id(config.devices)};
}

UpdateId ConfigTable::id(OpId op, const plan::UpdateConfig& update) {
    return {id(op, update.update), update.accumulate_locally, update.refetch};
}

DecisionId ConfigTable::id(OpId op, const plan::OpDecision& decision) {
    return {id(op, decision.config), id(op, decision.update)};
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
    return {config(op, id.config), update(op, id.update)};
}

}  // namespace partita::search
