// SPDX-License-Identifier: Apache-2.0
#include "search/configs/degree_choices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::Problem;
using Degrees = DegreeLists::Degrees;

namespace {

std::vector<Degrees> legal_degrees(const Problem& problem, OpId op, int size,
                                   const std::vector<FactorBlocks>& blocks) {
    if (static_cast<int>(problem.constraints().allowed_devices(op).size()) < size) return {};
    if (size == 1) return {{}};
    const std::vector<Axis> axes = axes_to_split(problem.facts().rule(op), blocks);
    std::vector<Degrees> legal;
    const int micro_batches = problem.policy().micro_batches;
    const auto add = [&](Degrees degrees) {
        if (is_legal_split(problem, op, degrees, size, micro_batches)) {
            legal.push_back(std::move(degrees));
        }
    };
    for (const Axis& axis : axes) add({axis.with_degree(size)});
    for (int major = 2; major <= size / 2; ++major) {
        if (size % major != 0) continue;
        for (const Axis& a : axes) {
            // What is illegal alone is illegal beside another.
            if (!is_legal_split(problem, op, {a.with_degree(major)}, major, micro_batches))
                continue;
            for (const Axis& b : axes) {
                if (a != b) add({a.with_degree(major), b.with_degree(size / major)});
            }
        }
    }
    return legal;
}

}  // namespace

bool is_legal_split(const Problem& problem, OpId op, const Degrees& degrees, int size,
                    int micro_batches) {
    const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
    if (static_cast<int>(allowed.size()) < size) return false;
    const plan::OpConfig config{.axes = degrees, .devices = some_of(allowed, 0, size)};
    return !find_fault(problem, op, config, micro_batches);
}

DegreeChoices::DegreeChoices(const Problem& problem, OpId op, int size,
                             const std::vector<FactorBlocks>& blocks, DegreeLists& lists)
    : degrees_(legal_degrees(problem, op, size, blocks)) {
    for (const Degrees& degrees : degrees_) {
        ids_.push_back(lists.id(op, degrees));
        singles_ += degrees.size() == 1 ? 1 : 0;
        pairs_ += degrees.size() == 2 ? 1 : 0;
    }
}

DegreesId DegreeChoices::draw(Random& random) const {
    if (ids_.size() == 1) return ids_.front();
    // Either there are both kinds, or all are of the one kind.
    const bool one_axis = random.below(2) == 0;
    const bool from_singles = pairs_ == 0 || (one_axis && singles_ > 0);
    return from_singles ? ids_[random.below(singles_)] : ids_[singles_ + random.below(pairs_)];
}

double DegreeChoices::log_probability(const Degrees& degrees) const {
    const std::size_t alike = degrees.size() > 1 ? pairs_ : singles_;
    const double of_kind = singles_ > 0 && pairs_ > 0 ? 0.5 : 1.0;
    return std::log(of_kind / static_cast<double>(std::max<std::size_t>(alike, 1)));
}

}  // namespace partita::search
