// SPDX-License-Identifier: Apache-2.0
#include "search/config_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "plan/config.h"
#include "search/split_configs.h"

namespace partita::search {

using graph::OpId;
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

}  // namespace

ConfigTable::ConfigTable(const Problem& problem, ConfigTableOptions options)
    : problem_(problem), options_(std::move(options)), blocks_(blocks_of_factors(problem)) {
    std::vector<int> all(static_cast<std::size_t>(problem.device_count()));
    std::iota(all.begin(), all.end(), 0);
    add_sets(all);
    const std::vector<int> equal = equal_devices(problem);
    if (equal != all) add_sets(equal);
}

void ConfigTable::add_sets(const std::vector<int>& devices) {
    for (const int size : sizes_of(static_cast<int>(devices.size()), node_size(problem_))) {
        const bool wanted = options_.sizes.empty() || is_among(options_.sizes, size);
        if (wanted && !is_too_fine(problem_, size)) add_size(size, devices);
    }
}

/// Stretches, and strides up to the size of a node.
void ConfigTable::add_size(int size, const std::vector<int>& devices) {
    const int count = static_cast<int>(devices.size());
    const int most_stride = size == 1 ? 1 : std::max(1, node_size(problem_));
    std::vector<DeviceSet>& sets = sets_[size];
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

const std::vector<int>& ConfigTable::sizes(OpId op) {
    const auto [known, is_new] = sizes_.try_emplace(op);
    if (!is_new) return known->second;
    std::vector<int> sizes;
    for (const auto& [size, sets] : sets_) {
        if (!device_sets(op, size).empty() && !degrees(op, size).empty()) sizes.push_back(size);
    }
    return sizes_[op] = std::move(sizes);
}

const std::vector<DeviceSet>& ConfigTable::device_sets(OpId op, int size) {
    static const std::vector<DeviceSet> kNone;
    const std::vector<int>& allowed = problem_.allowed_devices(op);
    const auto all = sets_.find(size);
    if (all == sets_.end()) return kNone;
    if (static_cast<int>(allowed.size()) == problem_.device_count()) return all->second;
    const auto [known, is_new] = allowed_sets_.try_emplace({op, size});
    if (is_new) {
        for (const DeviceSet& set : all->second) {
            bool usable = true;
            for (int i = 0; i < size && usable; ++i) usable = is_among(allowed, set[i]);
            if (usable) known->second.push_back(set);
        }
    }
    return known->second;
}

bool ConfigTable::is_legal(OpId op, const Degrees& degrees, int size) const {
    const std::vector<int>& allowed = problem_.allowed_devices(op);
    const plan::OpConfig config{.degrees = degrees, .devices = some_of(allowed, 0, size, 1)};
    return !find_fault(problem_, op, config, problem_.policy().micro_batches);
}

std::vector<ConfigTable::Degrees> ConfigTable::find_degrees(OpId op, int size) const {
    if (static_cast<int>(problem_.allowed_devices(op).size()) < size) return {};
    if (size == 1) return {{}};
    std::vector<std::string> factors{"*"};
    const std::vector<graph::Factor>& all = problem_.rule(op).factors;
    for (const graph::Factor& factor : all) factors.push_back(factor.name);
    for (const FactorBlocks& blocks : blocks_[op.index()]) {
        const std::string& name = all[static_cast<std::size_t>(blocks.factor)].name;
        factors.push_back(name_in_blocks(name, blocks.blocks));
    }
    std::vector<Degrees> legal;
    const auto add = [&](Degrees degrees) {
        if (is_legal(op, degrees, size)) legal.push_back(std::move(degrees));
    };
    for (const std::string& factor : factors) add({{factor, size}});
    if (options_.most_axes < 2) return legal;
    for (int major = 2; major <= size / 2; ++major) {
        if (size % major != 0) continue;
        for (const std::string& a : factors) {
            // What is illegal alone is illegal beside another.
            if (!is_legal(op, {{a, major}}, major)) continue;
            for (const std::string& b : factors) {
                if (a != b) add({{a, major}, {b, size / major}});
            }
        }
    }
    return legal;
}

const std::vector<ConfigTable::Degrees>& ConfigTable::degrees(OpId op, int size) {
    const auto [known, is_new] = degrees_.try_emplace({op, size});
    if (is_new) known->second = find_degrees(op, size);
    return known->second;
}

/// First and number of those with as many axes.
std::pair<std::size_t, std::size_t> ConfigTable::with_axes(OpId op, int size, std::size_t axes) {
    const std::vector<Degrees>& all = degrees(op, size);
    const auto at_least = [&](std::size_t count) {
        return static_cast<std::size_t>(
            std::find_if(all.begin(), all.end(),
                         [&](const Degrees& d) { return d.size() >= count; }) -
            all.begin());
    };
    const std::size_t first = at_least(axes);
    return {first, at_least(axes + 1) - first};
}

ConfigTable::Degrees ConfigTable::draw_degrees(OpId op, int size, Random& random) {
    const std::vector<Degrees>& all = degrees(op, size);
    if (all.size() == 1) return all.front();
    // Either there are both kinds, or all are of the one kind.
    const std::size_t axes = 1 + random.below(2);
    auto [first, count] = with_axes(op, size, axes);
    if (count == 0) std::tie(first, count) = with_axes(op, size, 3 - axes);
    return all[first + random.below(count)];
}

double ConfigTable::log_probability(OpId op, int size, const Degrees& degrees) {
    const std::size_t singles = with_axes(op, size, 1).second;
    const std::size_t pairs = with_axes(op, size, 2).second;
    const std::size_t own = degrees.size() > 1 ? pairs : singles;
    const double of_kind = singles > 0 && pairs > 0 ? 0.5 : 1.0;
    return std::log(of_kind / static_cast<double>(std::max<std::size_t>(own, 1)));
}

}  // namespace partita::search
