// SPDX-License-Identifier: Apache-2.0
//
// Peaks of a strategy that changes equal those of one that is lowered, simulated and walked through
// anew.
#include "plan/incremental/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/incremental/timeline.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

/// Whether layer blocks may recompute.
bool recomputes(std::uint64_t seed) {
    return seed % 7 >= 5;
}

/// Views of what has no memory of its own, of what has, and of views.
graph::OpGraph network_of_views() {
    NetworkBuilder build;
    graph::TensorId t = build.source("x", graph::TensorRole::input, {5, 6});
    t = build.add("Reshape", {t}, {{10, 3}})[0];
    t = build.add("Reshape", {t}, {{5, 6}})[0];
    t = build.add("MatMul", {t, build.weight({6, 6})}, {{5, 6}})[0];
    t = build.add("Reshape", {t}, {{10, 3}})[0];
    t = build.add("Reshape", {t}, {{5, 6}})[0];
    t = build.add("Add", {t, build.weight({5, 6})}, {{5, 6}})[0];
    build.add_outputs();
    return std::move(build.graph);
}

graph::OpGraph network(Random& random, std::uint64_t seed, int micro_batches) {
    if (seed % 10 == 0) return network_of_views();
    graph::OpGraph graph = random_network(random, 1 + draw(random, 7),
                                          micro_batches > 1 ? Layers::samples_apart : Layers::any);
    return recomputes(seed) ? in_layer_blocks(random, std::move(graph)) : graph;
}

/// A strategy that changes at random, and the peaks of its devices.
class ChangingMemory {
public:
    explicit ChangingMemory(std::uint64_t seed)
        : random_(seed),
          micro_batches_(seed % 3 == 0 ? 1 + draw(random_, 3) : 1),
          graph_(network(random_, seed, micro_batches_)),
          machine_(switched_machine(1 + draw(random_, 6))),
          problem_(make_problem(graph_, machine_, options(seed))),
          cache_(problem_),
          strategy_(random_strategy(random_, problem_, micro_batches_)),
          lowering_(problem_, strategy_, cache_),
          timeline_(resource_count_of(problem_), cache_.resource_sets().resources()),
          capacities_(static_cast<std::size_t>(problem_.device_count()), capacity(seed)),
          memory_(problem_, lowering_, capacities_) {
        evaluate();
        expect_equal(strategy_);
        timeline_.accept();
        lowering_.accept();
    }

    void step() {
        std::vector<OpChange> drawn = random_change(random_, problem_, strategy_);
        const StrategyChange change{.ops = drawn};
        Strategy next = strategy_;
        apply(next, change);
        if (find_fault(problem_, next)) return;
        ++changes_;
        lowering_.begin(change);
        lowering_.look_up();
        evaluate();
        // Not always: what is known of tensors may be older than the change before.
        if (draw(random_, 4) != 0) expect_equal(next);
        if (draw(random_, 2) == 0) {
            timeline_.accept();
            lowering_.accept();
            strategy_ = std::move(next);
        } else {
            timeline_.reject();
            lowering_.reject();
        }
    }

    [[nodiscard]] int changes() const { return changes_; }
    [[nodiscard]] int exact() const { return exact_; }
    [[nodiscard]] int bounded() const { return bounded_; }
    [[nodiscard]] int freed() const { return freed_; }
    [[nodiscard]] int views() const { return views_; }

private:
    static ProblemOptions options(std::uint64_t seed) {
        const bool training = seed % 4 != 0;
        return {.mode = training ? Mode::training : Mode::inference,
                .objective = training ? Objective::step_time : Objective::latency,
                .policy = {.recompute = recomputes(seed) ? Recompute::automatic : Recompute::none,
                           .gather_again = recomputes(seed) && seed % 3 == 0,
                           .bucket_bytes = seed % 5 == 0 ? std::optional(Bytes(512)) : std::nullopt,
                           .clip_norm = training && seed % 7 < 3 ? 1.0 : 0.0}};
    }
    /// Of every third device some fit, and are not in doubt even.
    static Bytes capacity(std::uint64_t seed) {
        return seed % 3 == 1 ? Bytes(static_cast<std::int64_t>(50 * (seed % 371))) : Bytes(-1);
    }

    void evaluate() {
        const auto tasks = lowering_.slots();
        const Csr<std::int32_t>& resource_sets = cache_.resource_sets().resources();
        for (auto i = timeline_.graph().resource_sets(); i < resource_sets.rows(); ++i) {
            timeline_.graph().add_resource_set(resource_sets[i]);
        }
        ASSERT_NE(timeline_.evaluate(tasks), std::nullopt);
    }

    void expect_equal(const Strategy& strategy) {
        const TaskGraph graph = lower(problem_, strategy);
        const auto expected = peak_memory(graph, simulate(graph, Scheduler::rank).commit_order);
        timeline_.write_pending_order(order_);
        const auto actual = memory_.peaks(timeline_.graph(), order_);
        Bytes overflow;
        for (std::size_t d = 0; d < expected.size(); ++d) {
            overflow += std::max(Bytes{0}, expected[d] - capacities_[d]);
            const Bytes most = lowering_.most_bytes()[d];
            if (expected[d] <= capacities_[d]) {
                EXPECT_LE(expected[d], actual[d]);
                EXPECT_LE(actual[d], capacities_[d]);
                ++bounded_;
                continue;
            }
            EXPECT_EQ(expected[d], actual[d]) << "device " << d << "\n"
                                              << text_of(problem_, strategy);
            ++exact_;
            if (actual[d] < most) ++freed_;
        }
        EXPECT_EQ(memory_.overflow(), overflow);
        for (const Buffer& buffer : graph.buffers) {
            const bool is_view = buffer.root.valid() && !buffer.gradient &&
                                 graph.buffers[buffer.root.index()].tensor != buffer.tensor;
            if (is_view) ++views_;
        }
    }

    Random random_;
    int micro_batches_;
    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
    LoweringCache cache_;
    Strategy strategy_;
    IncrementalLowering lowering_;
    IncrementalTimeline timeline_;
    std::vector<Bytes> capacities_;
    IncrementalMemory memory_;
    std::vector<Slot> order_;
    int changes_ = 0;
    int exact_ = 0;
    int bounded_ = 0;
    int freed_ = 0;
    int views_ = 0;
};

TEST(IncrementalMemory, EqualsTheMemoryOfLoweringAnew) {
    int changes = 0;
    int exact = 0;
    int bounded = 0;
    int freed = 0;
    int views = 0;
    for (const std::uint64_t seed : support::seeds(185)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        ChangingMemory changing(seed);
        for (int i = 0; i < 40 && !HasFailure(); ++i) changing.step();
        if (HasFailure()) return;
        changes += changing.changes();
        exact += changing.exact();
        bounded += changing.bounded();
        freed += changing.freed();
        views += changing.views();
    }
    // It is about something.
    EXPECT_GT(changes, support::draws(1'500));
    EXPECT_GT(exact, support::draws(2'500));
    EXPECT_GT(bounded, support::draws(250));
    EXPECT_GT(freed, support::draws(1'500));
    EXPECT_GT(views, support::draws(500));
}

}  // namespace
}  // namespace partita::plan
