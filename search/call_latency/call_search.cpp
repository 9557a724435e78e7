// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_search.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/evaluation/subgraph_latency.h"
#include "search/core/engine.h"

namespace partita::search {

/// One chain.
class CallSearch::Walk {
public:
    Walk(const CallSpace& space, double guidance, Random random)
        : state_(space, guidance), moves_(space), random_(random) {}

    void restart(const std::vector<std::int32_t>& slots) {
        state_.place(slots);
        score_ = state_.score();
        note();
    }

    struct Steps {
        std::int64_t proposals = 0;
        std::int64_t accepted = 0;
    };

    /// At this temperature, ps; fewer proposals when `stopped` says so between two of them.
    Steps walk(double temperature, std::int64_t proposals, const std::function<bool()>& stopped) {
        Steps steps;
        while (steps.proposals < proposals && !stopped()) {
            ++steps.proposals;
            if (!moves_.propose(state_, random_)) {
                state_.reject();
                continue;
            }
            const CallScore score = state_.score();
            if (!is_accepted(score, temperature)) {
                state_.reject();
                continue;
            }
            state_.accept();
            score_ = score;
            ++steps.accepted;
            note();
        }
        return steps;
    }

    [[nodiscard]] std::int64_t best_latency() const { return best_->latency; }
    /// The best slots since the last call, if they are better than all before.
    [[nodiscard]] std::optional<std::vector<std::int32_t>> take_best() {
        return std::exchange(best_slots_, std::nullopt);
    }

private:
    bool is_accepted(const CallScore& score, double temperature) {
        if (score.overflow != score_.overflow) return score.overflow < score_.overflow;
        const double worse = score.energy - score_.energy;
        return worse <= 0 || random_.uniform() < std::exp(-worse / temperature);
    }

    void note() {
        if (best_ && !score_.better_than(*best_)) return;
        best_ = score_;
        best_slots_ = state_.slots();
    }

    CallState state_;
    CallMoves moves_;
    Random random_;
    CallScore score_;
    std::optional<CallScore> best_;
    std::optional<std::vector<std::int32_t>> best_slots_;
};

CallSearch::CallSearch(CallSearchOptions options) : options_(options) {
    assert(options_.chains >= 1 && options_.cycles >= 1);
}

CallSearch::~CallSearch() = default;

bool CallSearch::applies(const Engine& engine) {
    return plan::is_subgraph_latency(engine.problem());
}

Status CallSearch::step(Engine& engine) {
    if (!space_) {
        start(engine);
        return space_->size() == 0 ? Status::found : Status::in_progress;
    }
    const bool limited = !options_.own_budget && engine.spent().has_value();
    if (!limited && proposals_ >= most_) return Status::found;
    return round(engine);
}

/// The placements from which fresh cycles start are worth an evaluation each.
void CallSearch::start(Engine& engine) {
    assert(applies(engine));
    space_ = std::make_unique<CallSpace>(engine.groups());
    const auto ops = static_cast<std::int64_t>(space_->costs.ops);
    most_ = std::min(options_.proposals, options_.work / std::max<std::int64_t>(ops, 1) + 1);
    const std::uint64_t seed = engine.random().next();
    std::vector<plan::Strategy> starts;
    for (std::size_t i = 0; i < static_cast<std::size_t>(options_.chains); ++i) {
        chains_.push_back(
            std::make_unique<Walk>(*space_, options_.guidance, Random::stream(seed, i)));
        starts.push_back(engine.groups().strategy(space_->placement_of(fresh_start(i))));
    }
    static_cast<void>(engine.evaluate(starts));
}

/// Accelerators filled one after the other, or all on CPUs.
std::vector<std::int32_t> CallSearch::fresh_start(std::size_t chain) const {
    const CallSpace& space = *space_;
    std::vector<std::int32_t> slots(space.size());
    std::vector<std::int64_t> room = space.capacity;
    std::size_t at = 0;
    for (std::size_t i = 0; i < space.size(); ++i) {
        const std::size_t group = chain % 3 == 1 ? space.size() - 1 - i : i;
        const auto allowed = space.slots[group];
        slots[group] = allowed.back();
        if (chain % 3 == 2 && allowed.back() == space.cpus) continue;
        const auto fits = [&](std::int32_t slot) {
            return slot == space.cpus || space.bytes[group] <= room[static_cast<std::size_t>(slot)];
        };
        // From the one that is being filled on.
        const auto from = std::ranges::lower_bound(allowed, static_cast<std::int32_t>(at));
        auto slot = std::find_if(from, allowed.end(), fits);
        if (slot == allowed.end()) slot = std::find_if(allowed.begin(), from, fits);
        if (slot == allowed.end()) slot = std::prev(slot);
        slots[group] = *slot;
        if (*slot == space.cpus) continue;
        room[static_cast<std::size_t>(*slot)] -= space.bytes[group];
        at = static_cast<std::size_t>(*slot);
    }
    return slots;
}

double CallSearch::spent(const Engine& engine) const {
    const std::optional<double> share = engine.spent();
    if (share && !options_.own_budget) return std::min(*share, 1.0);
    return std::min(1.0, static_cast<double>(proposals_) / static_cast<double>(most_));
}

bool CallSearch::is_fresh(std::size_t chain) const {
    return cycle_ == 0 || (static_cast<std::size_t>(cycle_) + chain) % 2 == 0;
}

void CallSearch::begin_cycles(Engine& engine, double spent) {
    const int cycle = std::min(static_cast<int>(spent * options_.cycles), options_.cycles - 1);
    if (cycle == cycle_) return;
    cycle_ = cycle;
    const std::vector<std::int32_t> best =
        space_->slots_of(engine.groups().placement(*engine.best()));
    engine.parallel(chains_.size(), [&](std::size_t i) {
        chains_[i]->restart(is_fresh(i) ? fresh_start(i) : best);
    });
}

/// As a share of the best latency.
double CallSearch::temperature(double spent, std::size_t chain) const {
    const double left = 1 - std::clamp(spent * options_.cycles - cycle_, 0.0, 1.0);
    const double begin = (is_fresh(chain) ? options_.hot : options_.warm) *
                         std::pow(options_.spread, static_cast<double>(chain));
    return options_.cold * std::pow(begin / options_.cold, left);
}

/// Some milliseconds' worth, by the size of the problem alone: results must not depend on clocks.
/// Fewer where the budget is small, so that the temperature falls in steps all the same.
std::int64_t CallSearch::proposals_per_walk(const Engine& engine) const {
    constexpr std::int64_t kOps = 500'000;
    constexpr std::int64_t kMost = 2'000;
    constexpr std::int64_t kSteps = 40;  // of a cycle
    const auto ops = static_cast<std::int64_t>(space_->costs.ops);
    std::optional<std::int64_t> budget = engine.options().evaluations;
    if (options_.own_budget || !engine.spent()) budget = most_;
    std::int64_t most = std::min(kMost, kOps / ops);
    if (budget) most = std::min(most, *budget / (kSteps * options_.cycles * options_.chains));
    return std::max<std::int64_t>(most, 1);
}

Status CallSearch::round(Engine& engine) {
    const double spent = this->spent(engine);
    begin_cycles(engine, spent);
    engine.set_done(spent);
    const auto count = static_cast<std::int64_t>(chains_.size());
    std::int64_t wanted = count * proposals_per_walk(engine);
    if (options_.own_budget) wanted = std::min(wanted, most_ - proposals_);
    const std::int64_t granted = engine.grant(wanted);
    std::vector<Walk::Steps> steps(chains_.size());
    engine.parallel(chains_.size(), [&](std::size_t i) {
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t own = granted / count + (index < granted % count ? 1 : 0);
        const auto best = static_cast<double>(chains_[i]->best_latency());
        steps[i] = chains_[i]->walk(temperature(spent, i) * best, own,
                                    [&] { return engine.interrupted(); });
    });
    std::vector<plan::Strategy> best;
    std::int64_t made = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        if (const auto slots = chains_[i]->take_best()) {
            best.push_back(engine.groups().strategy(space_->placement_of(*slots)));
        }
        made += steps[i].proposals;
        engine.count_acceptances(steps[i].proposals, steps[i].accepted);
    }
    proposals_ += made;
    engine.give_back(granted - made);
    engine.confirm(best);
    return Status::in_progress;
}

}  // namespace partita::search
