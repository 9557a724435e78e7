// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

constexpr std::size_t kCandidates = 20;
constexpr double kHalving = 3;  ///< devices excluded that halve what is left of a tree, about

}  // namespace

LoadTree::LoadTree(const LoadProblem& problem, LoadTreeOptions options)
    : problem_(problem), options_(options), rules_(problem), relaxation_(problem) {
    const LoadGraph& graph = problem.graph;
    for (std::size_t v = 0; v < graph.size; ++v) {
        double weight = 0;
        for (std::size_t k = 0; k < graph.kinds; ++k) {
            const std::int64_t time = graph.time(v, k);
            if (time < kNever && (weight == 0 || static_cast<double>(time) < weight)) {
                weight = static_cast<double>(time);
            }
        }
        for (const std::int32_t net : graph.nets[v]) {
            weight += static_cast<double>(graph.costs[static_cast<std::size_t>(net)]);
        }
        weight_.push_back(weight + 1);
    }
    per_step_ = operations_per_step(problem);
}

std::int64_t LoadTree::operations_per_step(const LoadProblem& problem) {
    const std::size_t rows = problem.graph.pins.items.size() + problem.graph.size;
    return static_cast<std::int64_t>(3 * rows * problem.devices.size()) + 1;
}

void LoadTree::look_below(std::int64_t target) {
    target_ = target;
    solution_.reset();
    open_.clear();
    relaxation_.set_target(target);
    open_.push_back({.masks = rules_.all(), .prices = nullptr});
}

bool LoadTree::advance(std::int64_t operations) {
    operations_ = operations;
    while (!open_.empty() && !solution_ && operations_ > 0) {
        Node node = std::move(open_.back());
        open_.pop_back();
        expand(std::move(node));
    }
    spent_ += operations - operations_;
    return open_.empty() || solution_.has_value();
}

void LoadTree::expand(Node node) {
    ++nodes_;
    operations_ -= per_step_;
    if (!rules_.propagate(node.masks, target_)) return;
    if (!relax(node)) return;
    const bool whole = std::all_of(node.masks.begin(), node.masks.end(),
                                   [](DeviceMask mask) { return std::has_single_bit(mask); });
    if (whole) {
        take_solution(node.masks);
        return;
    }
    branch(std::move(node));
}

/// False: pruned.
bool LoadTree::relax(Node& node) {
    const LoadNode facts{.masks = node.masks, .loads = rules_.loads()};
    const int steps = node.prices ? options_.steps : options_.root_steps;
    LoadPrices prices = node.prices ? *node.prices : relaxation_.start();
    relaxation_.ascend(facts, steps, prices);
    operations_ -= per_step_ * steps;
    if (relaxation_.prunes(facts, prices)) return false;
    exclude_by_price(node.masks);
    node.prices = std::make_shared<const LoadPrices>(std::move(prices));
    return rules_.propagate(node.masks, target_);
}

void LoadTree::exclude_by_price(std::vector<DeviceMask>& masks) {
    rules_.find_twins(masks, twins_);
    for (std::size_t v = 0; v < masks.size(); ++v) {
        if (std::has_single_bit(masks[v])) continue;
        DeviceMask excluded = 0;  // of twins the first stands for all
        for (std::size_t d = 0; d < twins_.size(); ++d) {
            if (((masks[v] >> d) & 1U) == 0) continue;
            if (relaxation_.excludes(v, d)) excluded |= DeviceMask{1} << twins_[d];
        }
        for (std::size_t d = 0; d < twins_.size(); ++d) {
            if (((excluded >> twins_[d]) & 1U) != 0) masks[v] &= ~(DeviceMask{1} << d);
        }
    }
}

/// Vertices to branch on: those that matter most, and that the relaxation knows least of.
void LoadTree::find_candidates(const std::vector<DeviceMask>& masks) {
    candidates_.clear();
    for (std::size_t v = 0; v < masks.size(); ++v) {
        if (std::has_single_bit(masks[v])) continue;
        double most = 0;
        for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
            most = std::max(most, relaxation_.share(v, d));
        }
        candidates_.emplace_back(-weight_[v] * (1.02 - most), v);
    }
    const std::size_t kept = std::min(candidates_.size(), kCandidates);
    std::partial_sort(candidates_.begin(), candidates_.begin() + kept, candidates_.end());
    candidates_.resize(kept);
}

/// The devices that v may go to without an immediate contradiction, and how much is left of the
/// tree then.
double LoadTree::try_vertex(const std::vector<DeviceMask>& masks, std::size_t v,
                            DeviceMask& possible) {
    const auto freedom = [](const std::vector<DeviceMask>& of) {
        double sum = 0;
        for (const DeviceMask mask : of) sum += std::popcount(mask) - 1;
        return sum;
    };
    const double before = freedom(masks);
    double left = 0;
    possible = 0;
    for (std::size_t d = 0; d < twins_.size(); ++d) {
        if (((masks[v] >> d) & 1U) == 0 || twins_[d] != d) continue;
        tried_ = masks;
        tried_[v] = DeviceMask{1} << d;
        operations_ -= per_step_;
        if (!rules_.propagate(tried_, target_)) continue;
        possible |= DeviceMask{1} << d;
        left += std::exp2(-(before - freedom(tried_)) / kHalving);
    }
    return left;
}

void LoadTree::branch(Node node) {
    rules_.find_twins(node.masks, twins_);
    find_candidates(node.masks);
    std::size_t v = 0;
    double least = std::numeric_limits<double>::infinity();
    DeviceMask chosen = 0;
    for (const auto& [score, candidate] : candidates_) {
        DeviceMask possible = 0;
        const double left = try_vertex(node.masks, candidate, possible);
        if (possible == 0) return;
        if (left >= least) continue;
        least = left;
        v = candidate;
        chosen = possible;
    }
    std::vector<std::size_t> devices;
    for (std::size_t d = 0; d < twins_.size(); ++d) {
        if (((chosen >> d) & 1U) != 0) devices.push_back(d);
    }
    // The last one is looked at first.
    std::stable_sort(devices.begin(), devices.end(), [&](std::size_t a, std::size_t b) {
        return relaxation_.share(v, a) < relaxation_.share(v, b);
    });
    for (const std::size_t d : devices) {
        Node child = node;
        child.masks[v] = DeviceMask{1} << d;
        open_.push_back(std::move(child));
    }
}

void LoadTree::take_solution(const std::vector<DeviceMask>& masks) {
    std::vector<std::int32_t> devices;
    for (const DeviceMask mask : masks) devices.push_back(std::countr_zero(mask));
    solution_ = std::move(devices);
}

}  // namespace partita::search
