// SPDX-License-Identifier: Apache-2.0
//
// Incremental lowering and its timeline equal those of a strategy that is lowered and simulated
// anew.
#include "plan/incremental/lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "plan/incremental/timeline.h"
#include "plan/legality/config_legality.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/plan/strategy/random_pipelines.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

/// One task as both say it.
struct Row {
    std::int64_t start = 0;
    std::int64_t duration = 0;
    std::int64_t launch = 0;
    std::uint64_t schedule_key = 0;
    std::uint64_t priority = 0;
    std::size_t predecessors = 0;
    std::vector<std::int32_t> resources;
    friend bool operator==(const Row&, const Row&) = default;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.start << " for " << row.duration << ", launched in " << row.launch
               << ", schedule_key " << row.schedule_key << ", priority " << row.priority
               << ", after " << row.predecessors << " tasks, on "
               << testing::PrintToString(row.resources) << "\n";
}

/// A strategy that changes.
class ChangingLowering {
public:
    ChangingLowering(Random& random, const Problem& problem, Strategy start)
        : random_(random),
          problem_(problem),
          cache_(problem_),
          strategy_(std::move(start)),
          lowering_(problem_, strategy_, cache_),
          timeline_(resource_count_of(problem_), cache_.resource_sets().resources(),
                    cache_.resource_sets().hosts()) {
        EXPECT_NE(evaluated(), std::nullopt);
        timeline_.accept();
        lowering_.accept();
    }

    void step(const std::vector<OpChange>& drawn) {
        const StrategyChange change{.ops = drawn};
        Strategy next = strategy_;
        apply(next, change);
        Strategy unscheduled = next;
        unscheduled.policy.schedule = {};
        if (find_fault(problem_, unscheduled)) return;
        lowering_.begin(change);
        const std::vector<std::int64_t> loads = least_loads();
        lowering_.look_up();
        expect_less_or_equal(loads, least_loads());
        const bool keeps = lowering_.keeps_schedule();
        ASSERT_EQ(keeps, !find_schedule_fault(problem_, next)) << text_of(problem_, next);
        if (!keeps) {
            lowering_.reject();
            ++broken_;
            return;
        }
        ++changes_;
        const auto makespan = evaluated();
        ASSERT_EQ(makespan, simulate(lower(problem_, next), Scheduler::rank).makespan)
            << text_of(problem_, next);
        if (draw(random_, 2) == 0) {
            timeline_.accept();
            lowering_.accept();
            strategy_ = std::move(next);
        } else {
            timeline_.reject();
            lowering_.reject();
        }
    }

    void expect_equal() {
        const TaskGraph graph = lower(problem_, strategy_);
        EXPECT_EQ(rows_of(graph), rows()) << text_of(problem_, strategy_);
        for (const Task& task : graph.tasks) {
            fusions_ += task.fused > 0 ? 1 : 0;
            fused_fetches_ += is_fused_fetch(problem_, task) ? 1 : 0;
            EXPECT_GT(task.duration, Time{0}) << task_name(problem_, task);
        }
        const auto loads = timeline_.graph().loads();
        expect_less_or_equal(least_loads(), {loads.begin(), loads.end()});
        std::vector<Bytes> most = persistent_bytes(graph);
        for (const Buffer& buffer : graph.buffers) {
            most[static_cast<std::size_t>(buffer.device)] += buffer.bytes;
        }
        for (std::size_t d = 0; d < most.size(); ++d) EXPECT_LE(most[d], lowering_.most_bytes()[d]);
    }

    [[nodiscard]] const Strategy& strategy() const { return strategy_; }
    [[nodiscard]] int changes() const { return changes_; }
    [[nodiscard]] int broken() const { return broken_; }
    [[nodiscard]] int fusions() const { return fusions_; }
    [[nodiscard]] int fused_fetches() const { return fused_fetches_; }
    [[nodiscard]] const TimelineEffort& effort() const { return timeline_.effort(); }

private:
    [[nodiscard]] std::vector<std::int64_t> least_loads() const {
        return {lowering_.least_loads().begin(), lowering_.least_loads().end()};
    }
    static void expect_less_or_equal(const std::vector<std::int64_t>& a,
                                     const std::vector<std::int64_t>& b) {
        for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(a[i], b[i]) << "resource " << i;
    }

    std::optional<Time> evaluated() {
        const auto tasks = lowering_.slots();
        const Csr<std::int32_t>& resource_sets = cache_.resource_sets().resources();
        for (auto i = timeline_.graph().resource_sets(); i < resource_sets.rows(); ++i) {
            timeline_.graph().add_resource_set(resource_sets[i], cache_.resource_sets().hosts()[i]);
        }
        return timeline_.evaluate(tasks);
    }

    static std::vector<Row> rows_of(const TaskGraph& graph) {
        const Timeline timeline = simulate(graph, Scheduler::rank);
        std::vector<Row> rows;
        for (const TaskId id : timeline.commit_order) {
            const std::size_t i = id.index();
            const auto resource_set =
                graph.resource_sets[static_cast<std::size_t>(graph.tasks[i].resource_set)];
            const Task& task = graph.tasks[i];
            rows.push_back(
                {.start = timeline.start[i].raw(),
                 .duration = task.duration.raw(),
                 .launch = task.launch.raw(),
                 .schedule_key = static_cast<std::uint64_t>(std::max(0, task.schedule_key)),
                 .priority = static_cast<std::uint64_t>(task.priority),
                 .predecessors = static_cast<std::size_t>(graph.predecessor_counts[i]),
                 .resources = {resource_set.begin(), resource_set.end()}});
        }
        return rows;
    }

    std::vector<Row> rows() {
        std::vector<Row> rows;
        for (const Slot slot : timeline_.order()) {
            const SlotGraph::Node& node = timeline_.graph()[slot];
            const auto resource_set = timeline_.graph().resources(node.resource_set);
            rows.push_back({.start = timeline_.start(slot).raw(),
                            .duration = node.duration,
                            .launch = node.launch,
                            .schedule_key = lowering_.keys().schedule_key(node.key),
                            .priority = lowering_.keys().priority(node.key),
                            .predecessors = node.predecessors.size(),
                            .resources = {resource_set.begin(), resource_set.end()}});
        }
        return rows;
    }

    Random& random_;
    const Problem& problem_;
    LoweringCache cache_;
    Strategy strategy_;
    IncrementalLowering lowering_;
    IncrementalTimeline timeline_;
    int changes_ = 0;
    int broken_ = 0;
    int fusions_ = 0;
    int fused_fetches_ = 0;
};

ProblemOptions options(std::uint64_t seed) {
    const bool training = seed % 4 != 0;
    return {.mode = training ? Mode::training : Mode::inference,
            .objective = training ? Objective::step_time : Objective::latency};
}

TEST(IncrementalLowering, EqualsLoweringAnew) {
    int changes = 0;
    int fusions = 0;
    std::int64_t spliced = 0;
    for (const std::uint64_t seed : support::seeds(125)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 7), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = random_machine(random, 6);
        const Problem problem = make_problem(graph, machine, options(seed));
        ChangingLowering changing(random, problem, random_strategy(random, problem, micro_batches));
        changing.expect_equal();
        for (int i = 0; i < 40 && !HasFailure(); ++i) {
            std::vector<OpChange> drawn = random_change(random, problem, changing.strategy());
            changing.step(drawn);
            if (i % 4 == 0) changing.expect_equal();
        }
        changing.expect_equal();
        if (HasFailure()) return;
        changes += changing.changes();
        fusions += changing.fusions();
        spliced += changing.effort().spliced;
    }
    // It is about something.
    EXPECT_GT(changes, support::draws(1'500));
    EXPECT_GT(fusions, support::draws(25));
    EXPECT_GT(spliced, support::draws(50));
}

// Stages on nodes, which go from one strategy to another.
TEST(IncrementalLowering, EqualsLoweringAnewWhereNodesGather) {
    int gathers = 0;
    for (const std::uint64_t seed : support::seeds(40)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 2);
        const graph::OpGraph graph = equal_layers(2 + draw(random, 4));
        const cost::Machine machine = machine_of_nodes(2, 2 + 2 * draw(random, 2));
        const Problem problem = make_problem(graph, machine, options(seed));
        const auto draw_stages = [&] { return shared_stages(random, problem, 2, micro_batches); };
        const Strategy start = draw_stages();
        if (find_fault(problem, start)) continue;
        ChangingLowering changing(random, problem, start);
        for (int i = 0; i < 20 && !HasFailure(); ++i) {
            const Strategy next = draw_stages();
            std::vector<OpChange> drawn;
            for (std::size_t op = draw(random, 3); op < next.ops.size(); op += 1 + draw(random, 4))
                drawn.push_back({graph::OpId(op), next.ops[op]});
            changing.step(drawn);
            changing.expect_equal();
            gathers += gathers_in_nodes(lower(problem, changing.strategy()));
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(gathers, support::draws(200));
}

TEST(IncrementalLowering, EqualsLoweringAnewWhereBlocksRecompute) {
    int changes = 0;
    int recomputed = 0;
    for (const std::uint64_t seed : support::seeds(60)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 3);
        const graph::OpGraph graph = in_layer_blocks(
            random, random_network(random, 2 + draw(random, 7),
                                   micro_batches > 1 ? Layers::samples_apart : Layers::any));
        const cost::Machine machine = switched_machine(1 + draw(random, 6));
        const Problem problem = make_problem(graph, machine,
                                             {.mode = Mode::training,
                                              .objective = Objective::step_time,
                                              .policy = {.recompute = Recompute::automatic,
                                                         .gather_again = seed % 2 == 0,
                                                         .bucket_bytes = random_buckets(random),
                                                         .host_time = random_host_time(random),
                                                         .clip_norm = seed % 5 < 2 ? 1.0 : 0.0}});
        ChangingLowering changing(random, problem, random_strategy(random, problem, micro_batches));
        changing.expect_equal();
        for (int i = 0; i < 40 && !HasFailure(); ++i) {
            std::vector<OpChange> drawn = random_change(random, problem, changing.strategy());
            for (OpChange& of : drawn) {
                recomputed += of.decision.recompute != Recompute::none ? 1 : 0;
            }
            changing.step(drawn);
            if (i % 4 == 0) changing.expect_equal();
        }
        changing.expect_equal();
        if (HasFailure()) return;
        changes += changing.changes();
    }
    // It is about something.
    EXPECT_GT(changes, support::draws(750));
    EXPECT_GT(recomputed, support::draws(1'000));
}

TEST(IncrementalLowering, EqualsLoweringAnewInSchedules) {
    std::map<ScheduleKind, int> changes;
    int broken = 0;
    int fusions = 0;
    for (const std::uint64_t seed : support::seeds(80)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        RandomPipeline of(random, seed % 4 != 0);
        if (seed > 120) of.recompute(random);
        const Problem problem = make_problem(of.graph, of.machine, of.options);
        RandomStages stages = draw_stages(random, problem, of.stages);
        stages.refetch = draw(random, 2) == 0;
        const auto start = random_pipeline(random, problem, stages);
        if (!start) continue;
        ChangingLowering changing(random, problem, *start);
        changing.expect_equal();
        for (int i = 0; i < 60 && !HasFailure(); ++i) {
            changing.step(random_pipeline_change(random, problem, changing.strategy(), stages));
            if (i % 4 == 0) changing.expect_equal();
        }
        changing.expect_equal();
        if (HasFailure()) {
            ADD_FAILURE() << to_text(problem.policy().schedule) << ", "
                          << text_of(problem, changing.strategy());
            return;
        }
        changes[problem.policy().schedule.kind] += changing.changes();
        broken += changing.broken();
        fusions += changing.fusions();
    }
    // It is about something.
    for (const ScheduleKind kind :
         {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::eager_1f1b,
          ScheduleKind::interleaved, ScheduleKind::zero_bubble_h1}) {
        EXPECT_GT(changes[kind], support::draws(250)) << to_text({.kind = kind, .chunks = 2});
    }
    EXPECT_GT(broken, support::draws(50));
    EXPECT_GT(fusions, support::draws(250));
}

/// Data parallelism over layers of two products and scales, whose weights most often lie in shards:
/// what fetches a layer can move as one.
class LayersInShards {
public:
    static constexpr int kLayers = 4;
    static constexpr int kStageDevices = 4;

    explicit LayersInShards(Random& random) : random_(random) {
        NetworkBuilder build;
        graph::TensorId x = build.source("x", graph::TensorRole::input, {16, 32});
        for (int layer = 0; layer < kLayers; ++layer) {
            for (int i = 0; i < 2; ++i) {
                x = build.add("MatMul", {x, build.weight({32, 32})}, {{16, 32}})[0];
                x = build.add("Mul", {x, build.weight({32})}, {{16, 32}})[0];
            }
            const std::size_t end = build.graph.op_count();
            for (std::size_t i = layers_.size(); i < end; ++i) {
                layers_.push_back(layer);
                build.graph.op(graph::OpId(i)).block = "layers." + std::to_string(layer);
            }
        }
        build.add_outputs();
        layers_.resize(build.graph.op_count(), kLayers - 1);
        graph = std::move(build.graph);
    }

    /// `stages`: 1 or 2, each with devices of its own; 0: no schedule, any of these.
    [[nodiscard]] OpDecision decision(graph::OpId op, int stages) {
        const int layer = layers_[op.index()];
        const int stage = stages == 0 ? draw(random_, 2) : layer * stages / kLayers;
        const int degree = draw(random_, 4) == 0 ? 2 : 4;
        const bool parameter = graph.op(op).kind == graph::OpKind::parameter;
        const int way = parameter ? draw(random_, 6) : 0;  // 0 to 3: shards that are fetched
        OpDecision decision;
        decision.config.devices = DeviceSet::progression(stage * kStageDevices, degree, 1);
        decision.config.axes = {way < 4 ? Axis::along(0, degree) : Axis::replicas(degree)};
        decision.update.refetch = parameter && way < 4;
        decision.update.accumulate_locally = way == 4;
        if (way == 5) {
            decision.update.update = {{Axis::along(0, degree)}, decision.config.devices};
        }
        return decision;
    }

    /// One op, or a layer that goes elsewhere as one.
    [[nodiscard]] std::vector<OpChange> change(int stages) {
        const int layer = draw(random_, kLayers);
        const graph::OpId one(
            static_cast<std::size_t>(draw(random_, static_cast<int>(graph.op_count()))));
        if (draw(random_, 2) == 0) return {{one, decision(one, stages)}};
        const OpDecision common = decision(graph::OpId(std::size_t{0}), stages);
        std::vector<OpChange> changes;
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            if (layers_[i] != layer) continue;
            const graph::OpId op(i);
            OpDecision drawn = decision(op, stages);
            if (stages == 0) {
                drawn.config.devices = common.config.devices;
                drawn.config.axes[0].degree = common.config.axes[0].degree;
                drawn.update.update = {};
            }
            changes.push_back({op, drawn});
        }
        return changes;
    }

    graph::OpGraph graph;

private:
    Random& random_;
    std::vector<int> layers_;  ///< by op
};

TEST(IncrementalLowering, EqualsLoweringAnewWhereLayersAreInShards) {
    int changes = 0;
    int fused_fetches = 0;
    for (const std::uint64_t seed : support::seeds(60)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        LayersInShards layers(random);
        const int stages = static_cast<int>(seed % 3);
        const int micro_batches = 1 + draw(random, 2);
        const cost::Machine machine = switched_machine(2 * LayersInShards::kStageDevices);
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.micro_batches = micro_batches;
        if (stages > 0) options.policy.schedule = {.kind = ScheduleKind::one_f_one_b};
        if (seed % 2 == 0) options.policy.recompute = Recompute::automatic;
        options.policy.gather_again = draw(random, 2) == 0;
        options.policy.bucket_bytes = random_buckets(random);
        options.policy.host_time = random_host_time(random);
        options.policy.clip_norm = seed % 5 < 2 ? 1.0 : 0.0;
        const Problem problem = make_problem(layers.graph, machine, options);
        Strategy start;
        start.policy = options.policy;
        for (std::size_t i = 0; i < layers.graph.op_count(); ++i) {
            start.ops.push_back(layers.decision(graph::OpId(i), stages));
        }
        if (find_fault(problem, start)) continue;
        ChangingLowering changing(random, problem, start);
        changing.expect_equal();
        for (int i = 0; i < 40 && !HasFailure(); ++i) {
            std::vector<OpChange> drawn = layers.change(stages);
            draw_recompute(random, problem, changing.strategy(), drawn);
            changing.step(drawn);
            if (i % 4 == 0) changing.expect_equal();
        }
        changing.expect_equal();
        if (HasFailure()) return;
        changes += changing.changes();
        fused_fetches += changing.fused_fetches();
    }
    // It is about something.
    EXPECT_GT(changes, support::draws(1'000));
    EXPECT_GT(fused_fetches, support::draws(1'000));
}

}  // namespace
}  // namespace partita::plan
