// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation/peak_memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

constexpr std::int64_t kX = 8 * 16 * 4;
constexpr std::int64_t kW1 = 16 * 16 * 4;
constexpr std::int64_t kHidden = 8 * 16 * 4;
constexpr std::int64_t kW2 = 16 * 4 * 4;
constexpr std::int64_t kY = 8 * 4 * 4;

ProblemOptions training_with_adam() {
    ProblemOptions options;
    options.mode = Mode::training;
    options.policy.optimizer = Optimizer::adam;
    return options;
}

// mul1 writes hidden; relu reads it, writes active; hidden ends when mul2 is committed.
//     commit   mul1: hidden   relu: hidden + active   mul2: active + y
TEST(PeakMemory, InferenceFreesWhatNobodyReadsAnyMore) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(7, 0)));
    const auto order = simulate(tasks, Scheduler::pct).commit_order;
    EXPECT_EQ(peak_memory(tasks, order), std::vector{Bytes{kX + kW1 + kW2 + 2 * kHidden}});
}

// Training keeps hidden's successor (saved by relu and mul2) and adds gradients and state:
// parameters count twice (value, gradient), Adam adds two float32 moments.
TEST(PeakMemory, TrainingCountsGradientsAndOptimizerState) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    const ProblemOptions options = training_with_adam();
    const Problem problem = make_problem(graph, machine, options);
    const TaskGraph tasks = lower(problem, whole_ops(std::vector<int>(7, 0), options.policy));
    const MemoryByKind& kept = tasks.persistent[0];
    EXPECT_EQ(kept[MemoryKind::weights], Bytes{kW1 + kW2});
    EXPECT_EQ(kept[MemoryKind::gradients], Bytes{kW1 + kW2});
    EXPECT_EQ(kept[MemoryKind::optimizer], Bytes{2 * (kW1 + kW2)});
    EXPECT_EQ(kept[MemoryKind::activations], Bytes{kX});
    EXPECT_EQ(kept.total(), Bytes{kX + 4 * (kW1 + kW2)});
    const auto order = simulate(tasks, Scheduler::pct).commit_order;
    EXPECT_GE(peak_memory(tasks, order)[0], kept.total() + Bytes{kHidden + kY});
}

TEST(PeakMemory, MixedPrecisionKeepsAMasterCopy) {
    graph::OpGraph graph = two_layers();
    for (std::uint32_t i = 0; i < graph.tensor_count(); ++i) {
        graph.tensor(graph::TensorId(i)).dtype = graph::DType::bfloat16;
    }
    const cost::Machine machine = switched_machine(1);
    const ProblemOptions options = training_with_adam();
    const Problem problem = make_problem(graph, machine, options);
    const graph::OpId w1 = *graph.find_op("w1");
    // ZeRO's 16 bytes per parameter: 2 + 2 + 12.
    EXPECT_EQ(problem.facts().persistent_bytes(w1), Bytes{16 * 16 * 16});
}

/// Bytes live on a device at the start of each task, from the real interval of every buffer.
std::vector<Bytes> true_peak(const TaskGraph& graph, const Timeline& timeline) {
    const std::vector<Bytes> kept = persistent_bytes(graph);
    std::vector<Bytes> peak = kept;
    std::vector<Time> end(graph.buffers.size());
    const auto task_end = [&](std::size_t i) {
        return timeline.start[i] + graph.tasks[i].duration;
    };
    for (std::size_t i = 0; i < graph.size(); ++i) {
        for (const auto* lists : {&graph.reads, &graph.writes}) {
            for (const BufferId b : (*lists)[i]) {
                auto& last = end[b.index()];
                last = std::max(last, task_end(i));
            }
        }
    }
    for (std::size_t i = 0; i < graph.size(); ++i) {
        const Time now = timeline.start[i];
        std::vector<Bytes> live = kept;
        for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
            const Buffer& buffer = graph.buffers[b];
            if (!buffer.writer.valid()) continue;  // in what is persistent
            const Time from = timeline.start[buffer.writer.index()];
            if (from > now || now >= end[b]) continue;
            live[static_cast<std::size_t>(buffer.device)] += buffer.bytes;
        }
        for (std::size_t d = 0; d < live.size(); ++d) peak[d] = std::max(peak[d], live[d]);
    }
    return peak;
}

/// What a runtime does that starts no task before those in front of it in the order.
Timeline issued_in_order(const TaskGraph& graph, const std::vector<TaskId>& order) {
    std::vector<Time> ready(graph.size());
    std::vector<Time> free(static_cast<std::size_t>(graph.resource_count));
    Timeline timeline;
    timeline.start.resize(graph.size());
    Time issued;
    for (const TaskId id : order) {
        const std::size_t i = id.index();
        issued = std::max(issued, ready[i]);
        const auto resource_set =
            graph.resource_sets[static_cast<std::size_t>(graph.tasks[i].resource_set)];
        for (const auto r : resource_set)
            issued = std::max(issued, free[static_cast<std::size_t>(r)]);
        timeline.start[i] = issued;
        const Time end = issued + graph.tasks[i].duration;
        for (const auto r : resource_set) free[static_cast<std::size_t>(r)] = end;
        for (const TaskId next : graph.successors[i]) {
            auto& time = ready[next.index()];
            time = std::max(time, end);
        }
    }
    return timeline;
}

RC_GTEST_PROP(PeakMemory, IsAnUpperBoundOfEveryExecutionInThatOrder, ()) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(3);
    ProblemOptions options;
    options.mode = *rc::gen::element(Mode::inference, Mode::training);
    const Problem problem = make_problem(graph, machine, options);
    const auto devices = *rc::gen::container<std::vector<int>>(7, rc::gen::inRange(0, 3));
    const bool split = *rc::gen::arbitrary<bool>();
    TaskGraph tasks = lower(
        problem, split ? search::data_parallel_strategy(problem, DeviceSet::progression(0, 2, 1))
                       : on_devices(devices));
    const auto order = simulate(tasks, Scheduler::fifo).commit_order;
    const std::vector<Bytes> bound = peak_memory(tasks, order);
    // Other durations, same order: what the runtime will see.
    for (Task& task : tasks.tasks) task.duration = Time(*rc::gen::inRange(0, 1'000));
    const std::vector<Bytes> actual = true_peak(tasks, issued_in_order(tasks, order));
    for (std::size_t d = 0; d < actual.size(); ++d) RC_ASSERT(actual[d] <= bound[d]);
}

TEST(MemoryCourse, HasThePeakAsItsMaximum) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options;
    options.mode = Mode::training;
    const Problem problem = make_problem(graph, machine, options);
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 0, 0, 1, 1, 1}));
    const auto order = simulate(tasks, Scheduler::pct).commit_order;
    std::vector<Bytes> most = persistent_bytes(tasks);
    for (const MemoryStep& step : memory_course(tasks, order)) {
        auto& device = most[static_cast<std::size_t>(step.device)];
        device = std::max(device, step.bytes);
    }
    EXPECT_EQ(most, peak_memory(tasks, order));
}

TEST(MemoryByKind, AddsUpToThePeak) {
    const cost::Machine machine = switched_machine(4);
    MemoryByKind seen;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        search::Random random(seed);
        const graph::OpGraph graph =
            in_layer_blocks(random, random_network(random, 8, Layers::any));
        ProblemOptions options;
        options.mode = seed % 2 == 0 ? Mode::training : Mode::inference;
        options.policy.recompute = seed % 4 == 0 ? Recompute::automatic : Recompute::none;
        options.policy.optimizer = Optimizer::adam;
        const Problem problem = make_problem(graph, machine, options);
        const TaskGraph tasks = lower(problem, random_strategy(random, problem, 1));
        const auto order = simulate(tasks, Scheduler::pct).commit_order;
        const std::vector<Bytes> peak = peak_memory(tasks, order);
        const std::vector<MemoryByKind> kinds = peak_memory_by_kind(tasks, order);
        ASSERT_EQ(kinds.size(), peak.size());
        for (std::size_t d = 0; d < peak.size(); ++d) {
            EXPECT_EQ(kinds[d].total(), peak[d]) << "seed " << seed << ", device " << d;
            for (const MemoryKind kind : kMemoryKinds) {
                EXPECT_GE(kinds[d][kind], Bytes{0});
                seen[kind] += kinds[d][kind];
            }
        }
    }
    for (const MemoryKind kind : kMemoryKinds) EXPECT_GT(seen[kind], Bytes{0}) << name_of(kind);
}

// Of two devices that share the batch, each holds all of the parameters and half of the rest.
TEST(MemoryByKind, TellsModelStatesFromActivations) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const ProblemOptions options = training_with_adam();
    const Problem problem = make_problem(graph, machine, options);
    const TaskGraph tasks =
        lower(problem, search::data_parallel_strategy(problem, DeviceSet::progression(0, 2, 1)));
    const auto order = simulate(tasks, Scheduler::pct).commit_order;
    for (const MemoryByKind& memory : peak_memory_by_kind(tasks, order)) {
        EXPECT_EQ(memory[MemoryKind::weights], Bytes{kW1 + kW2});
        EXPECT_GE(memory[MemoryKind::gradients], Bytes{kW1 + kW2});
        EXPECT_EQ(memory[MemoryKind::optimizer], Bytes{2 * (kW1 + kW2)});
        // The input at least, which stays.
        EXPECT_GE(memory[MemoryKind::activations], Bytes{kX / 2});
        EXPECT_LE(memory[MemoryKind::activations], Bytes{(kX + 4 * kHidden + 2 * kY) / 2});
    }
}

}  // namespace
}  // namespace partita::plan
