// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/grid_search.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/max_load.h"
#include "plan/legality/config_legality.h"
#include "plan/problem/problem.h"
#include "search/configs/standard_configs.h"
#include "search/core/engine.h"
#include "search/core/kept_state.h"
#include "search/core/recompute_fit.h"
#include "search/hybrid_parallel/expert.h"
#include "search/list_scheduling/memory_repair.h"

namespace partita::search {

using plan::Problem;
using plan::Strategy;

namespace {

/// Of what may be chosen.
constexpr int kChunks[] = {1, 2, 4};

/// Shards of the optimizer's state that are worth lowering: two million take five seconds.
constexpr std::int64_t kMostShards = 4'000'000;

bool allows(const std::optional<int>& said, int degree) {
    return !said || *said == degree;
}

bool is_grid(const ParallelConfig& said) {
    return said.data && said.tensor && said.pipeline;
}

int devices_of(const Grid& grid) {
    return grid.stages * grid.groups * grid.context * grid.group_size;
}

/// May the grid run under the policy: each chunk of a stage has layers, where these are said; chunks
/// are for pipelines; and where the schedule is free,
/// micro-batches go in order, so that without a pipeline too the backward of one comes before the
/// forward of the next (gradient accumulation as people run it).
bool suits(const Grid& grid, const plan::Policy& policy, const ParallelConfig& config,
           bool free_schedule) {
    const int slots = grid.stages * policy.schedule.chunks;
    const bool counted = config.layers && !config.layers->counts.empty();
    if (counted && std::ssize(config.layers->counts) != slots) return false;
    if (policy.schedule.chunks > 1) {
        return grid.stages > 1 && policy.micro_batches % grid.stages == 0;
    }
    if (!free_schedule) return true;
    return (policy.schedule == kPipelineOrder) == (policy.micro_batches > 1);
}

/// The problem's micro-batches and schedules, those with chunks that the configuration allows.
std::vector<plan::Policy> policies_of(const Problem& problem, const ParallelConfig& config) {
    std::vector<plan::Policy> policies;
    for (const int micro_batches : problem.batch().micro_batch_choices()) {
        plan::Policy policy = problem.policy();
        policy.micro_batches = micro_batches;
        policy.gather_again = problem.mode() == plan::Mode::training && config.gathers_again();
        if (!problem.batch().free_schedule()) {
            policies.push_back(policy);
            continue;
        }
        policy.schedule = {};
        if (allows(config.chunks, 1)) policies.push_back(policy);
        policy.schedule = kPipelineOrder;
        if (allows(config.chunks, 1) && micro_batches > 1) policies.push_back(policy);
        const auto chunked = [&](int chunks) {
            policy.schedule = {.kind = plan::ScheduleKind::interleaved, .chunks = chunks};
            policies.push_back(policy);
        };
        if (config.chunks && *config.chunks > 1) chunked(*config.chunks);
        for (const int chunks : kChunks) {
            if (!config.chunks && chunks > 1) chunked(chunks);
        }
    }
    return policies;
}

GridStyle style_of(const ParallelConfig& config) {
    GridStyle style{.share_weights = true, .order = config.order.value_or(kMegatronOrder)};
    if (config.layers && !config.layers->by_work) style.layers = config.layers->counts;
    if (config.sequence) {
        style.between = *config.sequence ? BetweenProducts::sharded : BetweenProducts::repeated;
    }
    return style;
}

/// What attention is split by is as said, or all of it is tried: estimates know nothing of what hides
/// behind what.
std::vector<GridStyle> styles_of(const ParallelConfig& config) {
    std::vector<AttentionBy> ways{AttentionBy::free};
    if (config.context_by_heads) {
        ways = {*config.context_by_heads ? AttentionBy::heads : AttentionBy::queries};
    } else if (config.context.value_or(1) > 1) {
        ways = {AttentionBy::free, AttentionBy::heads, AttentionBy::queries};
    }
    std::vector<GridStyle> styles;
    for (const AttentionBy way : ways) {
        styles.push_back(style_of(config));
        styles.back().attention = way;
    }
    return styles;
}

/// What people would say for it.
std::string describe(const Grid& grid, const Grids& grids, ZeroLevel zero,
                     const ParallelConfig& said) {
    const plan::Policy& policy = grids.policy();
    ParallelConfig config{.data = grid.groups,
                          .tensor = grid.group_size,
                          .pipeline = grid.stages,
                          .sequence = said.sequence,
                          .reduce_each = said.reduce_each,
                          .layers = said.layers,
                          .order = said.order};
    if (grid.context > 1) config.context = grid.context;
    if (grid.experts > 1) config.experts = grid.experts;
    if (const AttentionBy by = grids.style().attention; by != AttentionBy::free) {
        config.context_by_heads = by == AttentionBy::heads;
    }
    if (policy.schedule.chunks > 1) config.chunks = policy.schedule.chunks;
    if (zero != ZeroLevel::none) config.zero = static_cast<int>(zero);
    std::string text = config.text();
    if (policy.micro_batches > 1) text += fmt::format(", {} micro-batches", policy.micro_batches);
    if (policy.schedule != plan::Schedule{}) text += " in " + to_text(policy.schedule);
    return text;
}

}  // namespace

std::vector<Grid> grids_of(const ParallelConfig& config, int devices, int node) {
    const int context = config.context.value_or(1);
    const int experts = config.experts.value_or(1);
    const int most_of_all = devices / context;
    std::vector<Grid> all;
    for (int stages = 1; stages <= most_of_all; ++stages) {
        if (!allows(config.pipeline, stages)) continue;
        for (int groups = 1; groups <= most_of_all / stages; ++groups) {
            if (!allows(config.data, groups) || groups % experts != 0) continue;
            for (int size = 1; size <= most_of_all / stages / groups; ++size) {
                const bool in_nodes = size <= node ? node % size == 0 : size % node == 0;
                if (config.tensor ? *config.tensor == size : in_nodes) {
                    all.push_back({stages, groups, size, context, experts});
                }
            }
        }
    }
    int most = 0;
    int most_of_node = 0;
    for (const Grid& grid : all) {
        most = std::max(most, devices_of(grid));
        if (devices_of(grid) <= node) most_of_node = std::max(most_of_node, devices_of(grid));
    }
    std::erase_if(all, [&](const Grid& grid) {
        return devices_of(grid) != most && devices_of(grid) != most_of_node;
    });
    return all;
}

void GridSearch::find_grids(const Engine& engine) {
    const Problem& problem = engine.problem();
    config_ = engine.options().parallel;
    queue_.emplace(base_.emplace(engine.groups()));
    if (problem.constraints().whole_ops() || plan::has_given_costs(problem)) {
        fault_ = "ops of this problem must stay whole on one device each.";
        return;
    }
    const auto on = [&](const std::vector<int>& devices) {
        return grids_of(config_, static_cast<int>(devices.size()), node_size(problem));
    };
    std::vector<GridStyle> styles = styles_of(config_);
    std::vector<Grid> grids = on(equal_devices(problem));
    if (grids.empty()) {
        const std::vector<int> all = usable_devices(problem);
        grids = on(all);
        for (GridStyle& style : styles) style.devices = all;
        if (grids.empty()) {
            throw UsageError(fmt::format(
                "--strategy {}: needs more than the {} devices that there are. Use smaller "
                "degrees or a larger machine.",
                config_.text(), all.size()));
        }
    }
    plan::Policy first = problem.policy();
    first.micro_batches = problem.batch().micro_batch_choices().front();
    queue_.emplace(base_.emplace(engine.groups(), first, styles.front()));
    const bool free = problem.batch().free_schedule();
    const bool said = is_grid(config_);
    std::map<std::pair<std::size_t, int>, const Grids*> known;  // by style and micro-batches
    for (const plan::Policy& policy : policies_of(problem, config_)) {
        std::vector<Grid> suiting = grids;
        std::erase_if(suiting, [&](const Grid& grid) {
            // Groups that share the batch do alike, and are priced as one.
            const int parts = grid.context * grid.group_size;
            const bool too_fine = !said && is_too_fine(problem, parts, policy.micro_batches);
            return too_fine || !suits(grid, policy, config_, free);
        });
        for (std::size_t s = 0; s < styles.size(); ++s) {
            const Grids*& others = known[{s, policy.micro_batches}];
            auto made = others != nullptr
                            ? std::make_unique<Grids>(*others, policy)
                            : std::make_unique<Grids>(engine.groups(), policy, styles[s]);
            others = made.get();
            queue_->add(std::move(made), suiting);
        }
    }
}

bool GridSearch::is_worth_lowering(const Engine& engine, const Grid& grid, const Grids& grids,
                                   const Strategy& strategy) {
    if (!is_too_fine_in_shards(engine, grid, grids)) return true;
    const auto [known, is_new] = folds_.try_emplace(grid, false);
    if (is_new) {
        known->second = plan::folds(engine.problem(), strategy, engine.options().scheduler);
    }
    return known->second;
}

bool GridSearch::is_too_fine_in_shards(const Engine& engine, const Grid& grid,
                                       const Grids& grids) const {
    return !is_grid(config_) && is_too_fine(engine.problem(), devices_of(grid) / grid.stages,
                                            grids.policy().micro_batches);
}

std::vector<ZeroLevel> GridSearch::levels(const Engine& engine, const Grid& grid,
                                          const Grids& grids) const {
    const Problem& problem = engine.problem();
    if (config_.zero) return {static_cast<ZeroLevel>(*config_.zero)};
    const bool shards = problem.mode() == plan::Mode::training && grid.groups * grid.context > 1 &&
                        problem.policy().gradient_sync == plan::GradientSync::all_reduce;
    if (!shards) return {ZeroLevel::none};
    std::vector<ZeroLevel> all{ZeroLevel::none, ZeroLevel::optimizer};
    if (!is_too_fine_in_shards(engine, grid, grids)) {
        all.insert(all.end(), {ZeroLevel::gradients, ZeroLevel::parameters});
    } else {
        // Shards of the optimizer's state are parts once an iteration.
        const auto ops = static_cast<std::int64_t>(problem.graph().op_count());
        if (ops * devices_of(grid) / grid.stages > kMostShards) return {ZeroLevel::none};
    }
    if (const auto each = config_.reduce_each) {
        std::erase(all, *each ? ZeroLevel::optimizer : ZeroLevel::gradients);
    }
    return all;
}

GridSearch::Attempt GridSearch::attempt(const Engine& engine, const GridQueue::Entry& entry) {
    Grids& grids = queue_->grids(entry);
    Attempt attempt{.entry = entry, .fault = grids.fault(entry.grid)};
    if (!attempt.fault.empty()) return attempt;
    attempt.plain = grids.strategy(entry.grid);
    attempt.levels = levels(engine, entry.grid, grids);
    // Above no level there is another one to try, whatever comes out.
    const bool plain = propose(engine, attempt) && attempt.proposals[0].level == ZeroLevel::none;
    if (plain) propose(engine, attempt);
    return attempt;
}

bool GridSearch::propose(const Engine& engine, Attempt& attempt) {
    const Problem& problem = engine.problem();
    const Grid& grid = attempt.entry.grid;
    const Grids& grids = queue_->grids(attempt.entry);
    while (attempt.next < attempt.levels.size() && attempt.fault.empty()) {
        const ZeroLevel level = attempt.levels[attempt.next++];
        Strategy strategy = attempt.plain;
        apply_zero(problem, level, strategy);
        if (config_.reduce_each) apply_reduction(problem, *config_.reduce_each, strategy);
        attempt.fault = plan::find_fault(problem, strategy).value_or("");
        if (!attempt.fault.empty()) return false;
        const Bytes beyond = kept_beyond_memory(problem, strategy);
        if (beyond > Bytes{0}) {
            if (!least_ || beyond < least_->beyond) {
                least_ = {beyond, strategy, describe(grid, grids, level, config_)};
            }
            continue;
        }
        if (level != ZeroLevel::none && !is_worth_lowering(engine, grid, grids, strategy)) continue;
        attempt.proposals.push_back({level, std::move(strategy)});
        return true;
    }
    return false;
}

void GridSearch::foresee(Engine& engine) {
    std::vector<const Strategy*> next;
    for (const Attempt& attempt : ahead_) {
        for (const Proposal& proposal : attempt.proposals) next.push_back(&proposal.strategy);
    }
    engine.foresee(next);
}

bool GridSearch::try_grid(Engine& engine, Attempt& attempt) {
    const Grid& grid = attempt.entry.grid;
    const Grids& grids = queue_->grids(attempt.entry);
    bool improves = false;
    while (!attempt.proposals.empty() || propose(engine, attempt)) {
        foresee(engine);
        const Proposal proposal = std::move(attempt.proposals.front());
        attempt.proposals.pop_front();
        const auto fitted = evaluate_and_recompute(engine, proposal.strategy);
        if (!fitted) return false;
        ++tried_;
        if (engine.best() != nullptr && *engine.best() == fitted->strategy) {
            improves = true;
            engine.describe_best(describe(grid, grids, proposal.level, config_));
        }
        // A higher level may fit without recomputing as much.
        const bool fits_as_it_is =
            fitted->evaluation.feasible() && fitted->strategy == proposal.strategy;
        if (fits_as_it_is && proposal.level != ZeroLevel::none) break;
    }
    if (fault_.empty()) fault_ = attempt.fault;
    // What cannot be says nothing of how far the best ones are.
    if (attempt.fault.empty()) misses_ = improves ? 0 : misses_ + 1;
    return true;
}

Status GridSearch::end(Engine& engine) const {
    if (tried_ == 0 && least_) {
        const auto fitted = evaluate_and_recompute(engine, least_->strategy);
        if (fitted && engine.best() != nullptr && *engine.best() == fitted->strategy) {
            engine.describe_best(least_->configuration);
        }
    } else if (tried_ == 0 && config_ == ParallelConfig{}) {
        evaluate_and_repair(engine, place_expert(engine.groups()));
    } else if (tried_ == 0) {
        throw UsageError(fmt::format(
            "--strategy {}: {}", config_.text(),
            fault_.empty() ? "no number of micro-batches suits it; chunks need stages, and "
                             "micro-batches that are a multiple of them; layers a number for each "
                             "chunk of each stage."
                           : fault_));
    }
    return Status::found;
}

Status GridSearch::step(Engine& engine) {
    if (!queue_) {
        find_grids(engine);
        tasks_before_ = engine.evaluated_tasks();
    }
    const plan::Evaluation* const best = engine.best_evaluation();
    const bool fits = best != nullptr && best->feasible();
    const bool has_worked =
        !engine.spent() && engine.evaluated_tasks() - tasks_before_ >= kMostTasks;
    if (fits && (misses_ >= kMostMisses || has_worked)) return end(engine);
    const std::size_t turns = misses_ < kMostMisses ? kMostMisses - misses_ : 1;
    if (ahead_.size() < std::min(engine.foresight(), turns)) {
        if (const auto entry = queue_->pop(std::numeric_limits<double>::infinity())) {
            ahead_.push_back(attempt(engine, *entry));
            return Status::in_progress;
        }
    }
    if (ahead_.empty() || !try_grid(engine, ahead_.front())) return end(engine);
    ahead_.pop_front();
    return Status::in_progress;
}

}  // namespace partita::search
