// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/elimination.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "search/configs/standard_configs.h"
#include "search/core/engine.h"
#include "search/list_scheduling/memory_repair.h"
#include "search/list_scheduling/single_device.h"
#include "search/variable_elimination/variable_elimination.h"

namespace partita::search {

namespace {

/// What reshards of parameters count, in halves of their time.
constexpr std::array kParameterHalves = {2, 1, 0};

/// The prices of a MiB that are tried: 1 ns, 4 ns, ... to 67 ms, more than it takes to do anything
/// with it.
constexpr int kPrices = 14;
constexpr std::int64_t price_of_mebibyte(int level) {
    return std::int64_t{1'000} << (2 * level);
}

}  // namespace

EliminationSearch::EliminationSearch(EliminationOptions options) : options_(options) {}

EliminationSearch::~EliminationSearch() = default;

Status EliminationSearch::step(Engine& engine) {
    if (!space_) {
        open(engine);
        for (const std::int64_t halves : kParameterHalves) {
            const auto fits = propose(engine, {.parameter_halves = halves});
            if (!fits) return Status::found;
            fits_ |= *fits;
        }
        return fits_ ? Status::found : Status::in_progress;
    }
    return fit(engine);
}

void EliminationSearch::open(Engine& engine) {
    const plan::Problem& problem = engine.problem();
    const std::vector<int> devices = equal_devices(problem);
    note_devices(engine, devices);
    Detail detail = detail_for(problem, devices.size());
    if (devices.size() > options_.most_devices_of_two_axes) {
        detail = std::min(detail, Detail::one_axis);
    }
    space_ = std::make_unique<EliminationSpace>(problem, devices, detail);
}

void EliminationSearch::note_devices(Engine& engine, const std::vector<int>& devices) const {
    const int all = engine.problem().device_count();
    if (std::ssize(devices) == all) return;
    engine.note(fmt::format(
        "elimination: the devices differ; it planned for the {} of the fastest kind out of {}.",
        devices.size(), all));
}

std::optional<bool> EliminationSearch::propose(Engine& engine, const CostWeights& weights) {
    const Elimination best = eliminate(space_->costs(weights));
    if (!best.exact && !std::exchange(noted_width_, true)) {
        engine.note(fmt::format(
            "elimination: the graph is too wide for exact elimination; {} of {} ops were fixed "
            "first and improved one by one at the end.",
            best.fixed, space_->variables()));
    }
    plan::Strategy strategy = space_->strategy(best.choices, weights);
    const auto known = std::ranges::find(proposed_, strategy, &Proposal::strategy);
    if (known != proposed_.end()) return known->fits;
    const auto evaluation = engine.evaluate(strategy);
    if (!evaluation) return std::nullopt;
    proposed_.push_back({std::move(strategy), evaluation->feasible()});
    return proposed_.back().fits;
}

/// The least price of bytes at which the optimum fits, by bisection.
Status EliminationSearch::fit(Engine& engine) {
    int low = -1;
    int high = kPrices - 1;
    auto fits = propose(engine, {.per_mebibyte = price_of_mebibyte(high)});
    while (fits && *fits && high - low > 1) {
        const int middle = (low + high) / 2;
        const auto also = propose(engine, {.per_mebibyte = price_of_mebibyte(middle)});
        if (!also) return Status::found;
        (*also ? high : low) = middle;
    }
    if (fits && !*fits && options_.repair) {
        const GroupGraph& groups = engine.groups();
        const std::vector<int> devices = single_device_candidates(groups);
        static_cast<void>(evaluate_and_repair(engine, place_on(groups, devices.front())));
    }
    return Status::found;
}

}  // namespace partita::search
