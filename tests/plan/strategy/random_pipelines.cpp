// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/strategy/random_pipelines.h"

#include <algorithm>
#include <array>
#include <utility>

#include "plan/legality/config_legality.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {

using graph::OpId;
using search::Random;

namespace {

std::size_t position_of(const RandomStages& stages, std::size_t op) {
    const auto next = std::upper_bound(stages.borders.begin(), stages.borders.end(), op);
    return static_cast<std::size_t>(next - stages.borders.begin());
}

/// On devices of that stage. Often on all of them, so that they are one stage.
void move_to(Random& random, const Problem& problem, int stages, int stage, OpConfig& config) {
    const int share = problem.device_count() / stages;
    if (share > 1 && draw(random, 3) == 0)
        config = {.axes = {Axis::replicas(share)}, .devices = {}};
    int parts = 1;
    for (const Axis& axis : config.axes) parts *= axis.degree;
    if (parts > share) {
        config.axes.clear();
        parts = 1;
    }
    const DeviceSet drawn = draw_devices(random, parts, share);
    std::vector<int> devices;
    for (int i = 0; i < parts; ++i) devices.push_back(stage * share + drawn[i]);
    config.devices = DeviceSet::list(std::move(devices));
}

Strategy any_pipeline(Random& random, const Problem& problem, const RandomStages& stages) {
    Strategy strategy = random_strategy(random, problem, problem.policy().micro_batches);
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        const int stage = static_cast<int>(position_of(stages, i)) % stages.stages;
        move_to(random, problem, stages.stages, stage, strategy.ops[i].config);
        UpdateConfig& update = strategy.ops[i].update;
        update.refetch &= stages.refetch;
        if (!update.update.devices.empty()) {
            move_to(random, problem, stages.stages, draw(random, stages.stages), update.update);
        }
    }
    return strategy;
}

}  // namespace

RandomPipeline::RandomPipeline(Random& random, bool training)
    : micro_batches(std::array{2, 3, 5}[static_cast<std::size_t>(draw(random, 3))]),
      graph(random_network(random, 3 + draw(random, 10), Layers::samples_apart)),
      machine(switched_machine(micro_batches + draw(random, 7))),
      options{.mode = training ? Mode::training : Mode::inference,
              .objective = training ? Objective::step_time : Objective::latency} {
    constexpr std::array kKinds{ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                ScheduleKind::eager_1f1b, ScheduleKind::interleaved,
                                ScheduleKind::zero_bubble_h1};
    options.policy.micro_batches = micro_batches;
    options.policy.clip_norm = training && micro_batches % 2 == 0 ? 1.0 : 0.0;
    Schedule& schedule = options.policy.schedule;
    schedule.kind = kKinds[static_cast<std::size_t>(draw(random, 5))];
    if (schedule.kind == ScheduleKind::interleaved) {
        schedule.chunks = 2 + draw(random, 2);
        stages = micro_batches;
    } else {
        stages = 1 + draw(random, std::min(4, machine.device_count()));
    }
}

void RandomPipeline::recompute(Random& random) {
    graph = in_layer_blocks(random, std::move(graph));
    options.policy.recompute = Recompute::automatic;
    options.policy.gather_again = draw(random, 2) == 0;
    options.policy.bucket_bytes = random_buckets(random);
    Random apart = random;  // networks and changes are the same, whatever launches take
    options.policy.host_time = random_host_time(apart);
}

RandomStages draw_stages(Random& random, const Problem& problem, int stages) {
    RandomStages drawn{.stages = stages, .chunks = problem.policy().schedule.chunks, .borders = {}};
    const auto ops = static_cast<int>(problem.graph().op_count());
    for (int i = 1; i < drawn.stages * drawn.chunks; ++i) {
        drawn.borders.push_back(static_cast<std::size_t>(draw(random, ops)));
    }
    std::sort(drawn.borders.begin(), drawn.borders.end());
    return drawn;
}

std::optional<Strategy> random_pipeline(Random& random, const Problem& problem,
                                        const RandomStages& stages) {
    constexpr int kTries = 20;
    for (int i = 0; i < kTries; ++i) {
        Strategy strategy = any_pipeline(random, problem, stages);
        if (!find_fault(problem, strategy)) return strategy;
    }
    return std::nullopt;
}

std::vector<OpChange> random_pipeline_change(Random& random, const Problem& problem,
                                             const Strategy& base, const RandomStages& stages) {
    RandomStages others = stages;
    const bool same = draw(random, 3) != 0;
    if (!same) {
        for (std::size_t& border : others.borders) {
            border += static_cast<std::size_t>(draw(random, 3));
            if (draw(random, 2) == 0) border -= std::min<std::size_t>(border, 2);
        }
        std::sort(others.borders.begin(), others.borders.end());
    }
    const bool whole = draw(random, 12) == 0;
    const Strategy other = any_pipeline(random, problem, others);
    const int ops = static_cast<int>(problem.graph().op_count());
    const int first = draw(random, ops);
    const int count = 1 + draw(random, 3);
    std::vector<OpChange> changes;
    for (int i = 0; i < ops; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const bool moves = !same && position_of(stages, at) != position_of(others, at);
        if (!whole && !moves && (i < first || i >= first + count)) continue;
        const OpId op(at);
        const bool parameter = problem.graph().op(op).kind == graph::OpKind::parameter;
        const bool updates = parameter && draw(random, 2) == 0;
        changes.push_back({op, {other.config(op), updates ? other.update(op) : base.update(op)}});
    }
    draw_recompute(random, problem, base, changes);
    return changes;
}

}  // namespace partita::plan
