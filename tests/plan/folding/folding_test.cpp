// SPDX-License-Identifier: Apache-2.0
//
// A folded task graph says what the whole one says: the value, when each of its tasks starts, how
// long devices are busy, and their memory.
#include "plan/folding/folding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

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

struct Counts {
    int compared = 0;
    int folded = 0;
    int scheduled = 0;
    std::size_t starts = 0;  ///< compared, by each scheduler
    std::size_t tasks = 0;   ///< of folded graphs
    std::size_t whole = 0;   ///< of the same, not folded
    int gathers = 0;         ///< gathers_in_nodes()
};

std::map<std::string, Time> starts_by_name(const Problem& problem, const TaskGraph& tasks,
                                           const Timeline& timeline) {
    std::map<std::string, Time> starts;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        starts.emplace(task_name(problem, tasks.tasks[i]), timeline.start[i]);
    }
    return starts;
}

void expect_the_same(const Problem& problem, const Strategy& strategy, Counts& counts) {
    ++counts.compared;
    LoweringCache cache(problem);
    const TaskGraph folded = lower_folded(problem, strategy, cache);
    const TaskGraph whole = lower(problem, strategy);
    EXPECT_EQ(count_costs(folded), count_costs(whole)) << text_of(problem, strategy);
    EXPECT_EQ(folds(problem, strategy), folded.is_folded());
    if (!folded.is_folded()) {
        EXPECT_EQ(digest(folded), digest(whole));
        return;
    }
    EXPECT_EQ(folded.whole_size(), std::ssize(whole.tasks));
    ++counts.folded;
    counts.tasks += folded.size();
    counts.whole += whole.size();
    counts.gathers += gathers_in_nodes(whole);
    const std::string text = text_of(problem, strategy);
    for (const Scheduler scheduler : {Scheduler::rank, Scheduler::pct}) {
        const Timeline expected = simulate(whole, scheduler);
        const Timeline found = simulate(folded, scheduler);
        ASSERT_EQ(found.makespan, expected.makespan) << text;
        const auto starts = starts_by_name(problem, whole, expected);
        for (const auto& [name, start] : starts_by_name(problem, folded, found)) {
            const auto of = starts.find(name);
            if (of == starts.end()) continue;  // a fused collective may be named otherwise
            ASSERT_EQ(start, of->second) << name << "\n" << text;
            ++counts.starts;
        }
        const std::vector<Bytes> peak = peak_memory(whole, expected.commit_order);
        const std::vector<Bytes> peak_found = peak_memory(folded, found.commit_order);
        for (std::size_t d = 0; d < peak.size(); ++d) {
            ASSERT_EQ(found.busy[d], expected.busy[d]) << text;
            ASSERT_EQ(peak_found[d], peak[d]) << "device " << d << "\n" << text;
        }
    }
}

TEST(Folding, OfRandomStrategiesIsExact) {
    Counts counts;
    for (const std::uint64_t seed : support::seeds(400)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 3);
        graph::OpGraph graph = random_network(
            random, 1 + draw(random, 6), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const bool recomputes = seed % 4 == 0;
        const bool in_nodes = seed % 3 == 0;  // and even: what is uneven is not folded
        if (in_nodes) graph = equal_layers(1 + draw(random, 4));
        if (recomputes) graph = in_layer_blocks(random, std::move(graph));
        const int devices = 2 << draw(random, 3);
        std::vector<int> nodes;
        for (int d = 0; d < devices; ++d) nodes.push_back(d * (1 << draw(random, 2)) / devices);
        std::ranges::sort(nodes);
        const cost::Machine machine =
            in_nodes && devices > 2
                ? machine_of_nodes(2, devices / 2)
                : switched_machine(devices, seed % 2 == 0 ? nodes : std::vector<int>{});
        const Problem problem = make_problem(
            graph, machine,
            {.mode = Mode::training,
             .objective = Objective::step_time,
             .policy = {.recompute = recomputes ? Recompute::automatic : Recompute::none,
                        .gather_again = recomputes && seed % 8 == 0,
                        .bucket_bytes = random_buckets(random),
                        .host_time = random_host_time(random),
                        .clip_norm = seed % 5 < 2 ? 1.0 : 0.0}});
        const Strategy drawn = random_strategy(random, problem, micro_batches);
        for (int stages : {1, 2, 4}) {
            stages = std::min(stages, devices);
            Strategy strategy = in_nodes ? shared_stages(random, problem, stages, micro_batches)
                                         : in_stages(drawn, stages, devices / stages);
            const bool scheduled = draw(random, 2) == 0;
            if (scheduled) strategy.policy.schedule = {.kind = ScheduleKind::one_f_one_b};
            if (find_fault(problem, strategy)) continue;
            expect_the_same(problem, strategy, counts);
            if (HasFailure()) return;
            counts.scheduled += scheduled ? 1 : 0;
        }
    }
    std::cout << counts.compared << " compared, " << counts.folded << " folded, " << counts.tasks
              << " of " << counts.whole << " tasks, " << counts.gathers << " gathers in nodes\n";
    EXPECT_GE(counts.folded, support::draws(100));
    EXPECT_GE(counts.scheduled, support::draws(100));
    EXPECT_GE(counts.gathers, support::draws(40));
    EXPECT_GT(100 * counts.starts, 95 * 2 * counts.tasks);
}

}  // namespace
}  // namespace partita::plan
