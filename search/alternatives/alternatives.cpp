// SPDX-License-Identifier: Apache-2.0
#include "search/alternatives/alternatives.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/incremental/evaluator.h"
#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "search/configs/search_space.h"
#include "search/configs/state.h"
#include "search/configs/written_change.h"
#include "search/core/evaluator_pool.h"
#include "search/mcmc/moves/proposal_builder.h"

namespace partita::search {

using graph::OpId;

namespace {

struct Candidate {
    ConfigId config;
    bool in_equal_layers = false;
    Changes changes;
    plan::Score score;
};

class Enumeration {
public:
    Enumeration(SearchSpace& space, const plan::Strategy& strategy)
        : space_(space),
          state_(space.table(), strategy),
          builder_(space),
          evaluator_(space.problem()) {
        // Anything, but that the schedule is kept where it is: what it takes is found by what changes then.
        limit_ = {.keeps_schedule = evaluator_.start(strategy).keeps_schedule,
                  .overflow = Bytes::max(),
                  .value = Time::max()};
        // Half a minute's worth at most, by the size of the plan alone.
        constexpr std::int64_t kTasks = 20'000'000;
        constexpr std::int64_t kLeast = 20;
        constexpr std::int64_t kMost = 4'000;
        const auto tasks = static_cast<std::int64_t>(std::max<std::size_t>(evaluator_.tasks(), 1));
        most_ = left_ = std::clamp(kTasks / tasks, kLeast, kMost);
    }

    /// On its own devices first.
    void run(OpId op, const AlternativesProgress& progress) {
        ConfigTable& table = space_.table();
        const plan::DeviceSet own = table.sets()[state_.config(op).devices];
        try_degrees(op, own, progress);
        for (const int size : table.sizes(op)) {
            for (const plan::DeviceSet& set : table.device_sets(op, size)) {
                if (set != own) try_degrees(op, set, progress);
            }
        }
    }

    [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }
    [[nodiscard]] std::int64_t tried() const { return tried_; }
    [[nodiscard]] bool is_over() const { return left_ == 0; }
    [[nodiscard]] std::size_t tasks() const { return evaluator_.tasks(); }

private:
    void try_degrees(OpId op, const plan::DeviceSet& devices,
                     const AlternativesProgress& progress) {
        ConfigTable& table = space_.table();
        for (const ConfigTable::Degrees& degrees : table.degrees(op, devices.size())) {
            progress(static_cast<double>(tried_) / static_cast<double>(most_));
            const ConfigId config =
                table.id(op, plan::OpConfig{.axes = degrees, .devices = devices});
            for (const bool in_equal_layers : {false, true})
                try_config(op, config, in_equal_layers);
        }
    }

    void try_config(OpId op, ConfigId config, bool in_equal_layers) {
        if (is_over()) return;
        builder_.start(state_);
        builder_.set(op, config);
        if (in_equal_layers) {
            builder_.spread(op);
            builder_.repeat();
        }
        Changes changes;
        if (!builder_.finish(changes)) return;
        const auto same = [&](const Candidate& known) { return known.changes == changes; };
        if (in_equal_layers && std::ranges::any_of(candidates_, same)) return;  // the op alone
        --left_;
        ++tried_;
        const auto score = evaluator_.evaluate(written_.write(changes, space_.table()), limit_);
        if (!score) return;
        evaluator_.reject();
        candidates_.push_back({config, in_equal_layers, std::move(changes), *score});
    }

    SearchSpace& space_;
    State state_;
    ProposalBuilder builder_;
    plan::IncrementalEvaluator evaluator_;
    WrittenChange written_;
    plan::Score limit_;
    std::vector<Candidate> candidates_;
    std::int64_t tried_ = 0;
    std::int64_t left_ = 0;
    std::int64_t most_ = 0;
};

bool comes_first(const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score.better_than(b.score);
    return a.changes.ops.size() < b.changes.ops.size();
}

/// Do they cut the op in the same parts, which lie on the same devices in another order?
bool are_alike(const Alternative& a, const Alternative& b) {
    const auto same_axes = [&] {
        return std::ranges::is_permutation(a.config.axes, b.config.axes);
    };
    return a.score == b.score && a.config.devices == b.config.devices && same_axes();
}

/// With the plan's own scheduler, on all threads of the pool.
std::vector<Alternative> priced(const std::vector<const Candidate*>& candidates,
                                const plan::Strategy& strategy, OpId op, const ConfigTable& table,
                                EvaluatorPool& evaluators) {
    std::vector<Alternative> all(candidates.size());
    evaluators.run(candidates.size(), [&](int worker, std::size_t i) {
        const Candidate& candidate = *candidates[i];
        plan::Strategy changed = strategy;
        apply(candidate.changes, table, changed);
        const plan::Score score = plan::score_of(evaluators.evaluator(worker).evaluate(changed));
        plan::OpConfig config = changed.config(op);
        all[i] = {.strategy = std::move(changed),
                  .config = std::move(config),
                  .in_equal_layers = candidate.in_equal_layers,
                  .changed_ops = std::ssize(candidate.changes.ops),
                  .score = score};
        return true;
    });
    return all;
}

/// Of each kind the best.
std::vector<Alternative> best_of(std::vector<Candidate> candidates, const plan::Strategy& strategy,
                                 OpId op, const ConfigTable& table, EvaluatorPool& evaluators,
                                 int most, int priced_for_one) {
    std::ranges::stable_sort(candidates, comes_first);
    std::vector<Alternative> best;
    for (const bool in_equal_layers : {false, true}) {
        std::vector<const Candidate*> first;
        for (const Candidate& candidate : candidates) {
            if (candidate.in_equal_layers != in_equal_layers) continue;
            if (std::ssize(first) == std::ptrdiff_t{priced_for_one} * most) break;
            first.push_back(&candidate);
        }
        std::vector<Alternative> all = priced(first, strategy, op, table, evaluators);
        std::ranges::stable_sort(all, [](const Alternative& a, const Alternative& b) {
            return a.score.better_than(b.score);
        });
        const auto alike = std::ranges::unique(all, are_alike);
        all.erase(alike.begin(), alike.end());
        all.resize(std::min(all.size(), static_cast<std::size_t>(most)));
        std::ranges::move(all, std::back_inserter(best));
    }
    std::ranges::stable_sort(best, [](const Alternative& a, const Alternative& b) {
        return a.score.better_than(b.score);
    });
    return best;
}

}  // namespace

Alternatives alternatives_of(const plan::Problem& problem, const plan::Strategy& strategy, OpId op,
                             plan::Scheduler scheduler, int most,
                             const AlternativesProgress& progress) {
    assert(problem.facts().has_forward(op));
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    SearchSpace space(groups);
    Enumeration enumeration(space, strategy);
    enumeration.run(op, progress);
    // The other scheduler may rank them otherwise; of large plans that takes too long to look at.
    constexpr std::size_t kLarge = 200'000;
    const bool is_large = enumeration.tasks() > kLarge;
    const int priced_for_one = is_large ? 1 : 3;
    // Each thread's evaluation takes as much memory as the plan's.
    EvaluatorPool evaluators(problem, scheduler, is_large ? 1 : 0);
    Alternatives alternatives{.now = plan::score_of(evaluators.evaluator(0).evaluate(strategy)),
                              .layers = std::ssize(space.repeats().twins(op)),
                              .tried = enumeration.tried(),
                              .all = !enumeration.is_over(),
                              .best = {}};
    alternatives.best = best_of(std::move(enumeration.candidates()), strategy, op, space.table(),
                                evaluators, most, priced_for_one);
    return alternatives;
}

}  // namespace partita::search
