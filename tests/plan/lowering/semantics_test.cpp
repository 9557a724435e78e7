// SPDX-License-Identifier: Apache-2.0
//
// Lowered programs compute what one device computes: forward, backward and update, for random
// networks with uneven extents and random legal splits of everything (interpreter.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/lowering/interpreter.h"
#include "tests/plan/lowering/op_meaning.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using graph::OpGraph;
using graph::TensorId;
using search::Random;

constexpr int kProgramDevices = 12;

/// One node, three uneven ones, or three behind a slow network.
const cost::Machine& machine(std::uint64_t seed) {
    static const cost::Machine kFlat = switched_machine(kProgramDevices);
    static const cost::Machine kUneven =
        switched_machine(kProgramDevices, {0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2});
    static const cost::Machine kNodes = machine_of_nodes(3, kProgramDevices / 3);
    if (seed % 2 == 0) return kFlat;
    return seed % 4 == 1 ? kUneven : kNodes;
}

struct Program {
    Program(std::uint64_t seed, Layers kind, int micro_batches,
            Recompute recompute = Recompute::none, Schedule schedule = {})
        : random(seed),
          graph(network(random, kind, recompute)),
          problem(make_problem(
              graph, machine(seed),
              {.mode = Mode::training,
               .objective = Objective::step_time,
               .policy = {.schedule = schedule,
                          .recompute = recompute,
                          .gather_again = recompute != Recompute::none && seed % 2 == 0,
                          .bucket_bytes = buckets(seed),
                          .clip_norm = clip_norm(seed, kind)}})),
          strategy(random_strategy(random, problem, micro_batches)) {}
    Program(const Program&) = delete;  // the problem refers to the graph
    Program& operator=(const Program&) = delete;

    static std::optional<Bytes> buckets(std::uint64_t seed) {
        if (seed % 3 == 0) return Bytes(256);
        return seed % 3 == 1 ? std::optional(kLayerBuckets) : std::nullopt;
    }

    /// Clipped, updates are no longer linear in gradients.
    static double clip_norm(std::uint64_t seed, Layers kind) {
        return kind != Layers::linear && seed % 5 < 2 ? 1.0 : 0.0;
    }

    static OpGraph network(Random& random, Layers kind, Recompute recompute) {
        OpGraph graph = random_network(random, 1 + draw(random, 6), kind);
        if (recompute == Recompute::none) return graph;
        return in_layer_blocks(random, std::move(graph));
    }

    [[nodiscard]] Strategy alone() const {
        return on_devices(std::vector<int>(graph.op_count(), 0));
    }

    Random random;
    OpGraph graph;
    Problem problem;
    Strategy strategy;
};

/// Does some op have such an axis?
template <class Predicate>
bool any_axis(const Strategy& strategy, Predicate predicate) {
    return std::ranges::any_of(strategy.ops, [&](const OpDecision& op) {
        return std::ranges::any_of(op.config.axes, predicate);
    });
}

bool has_blocks(const Axis& axis) {
    return axis.blocks > 1;
}

bool has_fusion(const Program& program) {
    const TaskGraph tasks = lower(program.problem, program.strategy);
    return std::any_of(tasks.tasks.begin(), tasks.tasks.end(),
                       [](const Task& task) { return task.fused > 0; });
}

void expect_same_as_one_device(const Program& program, std::uint64_t seed) {
    const std::string text =
        "seed " + std::to_string(seed) + ", " + text_of(program.problem, program.strategy);
    ASSERT_EQ(find_fault(program.problem, program.strategy), std::nullopt) << text;
    const Interpretation expected = interpreted(program.problem, program.alone());
    Interpretation actual;
    ASSERT_NO_THROW(actual = interpreted(program.problem, program.strategy)) << text;
    EXPECT_TRUE(actual.outputs == expected.outputs) << text;
    EXPECT_TRUE(actual.parameters == expected.parameters) << text;
    const auto hasty = find_hasty_write(program.problem, lower(program.problem, program.strategy));
    EXPECT_FALSE(hasty) << *hasty << "\n" << text;
}

TEST(Semantics, RandomSplitsComputeWhatOneDeviceComputes) {
    int passing = 0;
    int in_blocks = 0;
    int fused = 0;
    for (const std::uint64_t seed : support::seeds(500)) {
        const Program program(seed, Layers::any, 1);
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
        passing += any_axis(program.strategy, &Axis::is_summand) ? 1 : 0;
        in_blocks += any_axis(program.strategy, has_blocks) ? 1 : 0;
        fused += has_fusion(program) ? 1 : 0;
    }
    EXPECT_GE(passing, support::draws(50));
    EXPECT_GE(in_blocks, support::draws(50));
    EXPECT_GE(fused, support::draws(20));
}

TEST(Semantics, ACacheChangesNothing) {
    for (const std::uint64_t seed : support::seeds(60)) {
        Program program(seed, Layers::samples_apart, 2);
        LoweringCache cache(program.problem, LoweringCache::MicroBatches::apart);
        for (int i = 0; i < 5; ++i) {
            const TaskGraph cached = lower(program.problem, program.strategy, cache);
            const TaskGraph fresh = lower(program.problem, program.strategy);
            EXPECT_EQ(digest(cached), digest(fresh));
            ASSERT_EQ(cached.buffers.size(), fresh.buffers.size());
            for (std::size_t b = 0; b < fresh.buffers.size(); ++b) {
                const std::int32_t own = cached.buffers[b].region;
                const std::int32_t other = fresh.buffers[b].region;
                ASSERT_EQ(own < 0, other < 0);
                if (own >= 0) {
                    EXPECT_TRUE((*cached.regions)[own] == (*fresh.regions)[other]);
                }
                EXPECT_EQ(cached.buffers[b].bytes, fresh.buffers[b].bytes);
            }
            program.strategy =
                random_strategy(program.random, program.problem, 1 + draw(program.random, 3));
        }
    }
}

// But for the regions that buffers name: of micro-batches alike those of the first.
TEST(Semantics, SharingMicroBatchesChangesNothing) {
    int shared = 0;
    int apart = 0;
    for (const std::uint64_t seed : support::seeds(200)) {
        Program program(seed, Layers::samples_apart, 1 + static_cast<int>(seed % 5),
                        seed % 4 == 0 ? Recompute::automatic : Recompute::none);
        if (find_fault(program.problem, program.strategy)) continue;
        LoweringCache cache(program.problem);
        const TaskGraph found = lower(program.problem, program.strategy, cache);
        const TaskGraph expected = lower(program.problem, program.strategy);
        ASSERT_EQ(digest(found), digest(expected)) << "seed " << seed;
        ASSERT_EQ(found.buffers.size(), expected.buffers.size());
        for (std::size_t b = 0; b < found.buffers.size(); ++b) {
            ASSERT_EQ(found.buffers[b].bytes, expected.buffers[b].bytes);
            ASSERT_EQ(found.buffers[b].micro_batch, expected.buffers[b].micro_batch);
            ASSERT_EQ(found.buffers[b].device, expected.buffers[b].device);
            ASSERT_EQ(found.buffers[b].kind, expected.buffers[b].kind);
        }
        (cache.like(3, 1) == 0 ? shared : apart) += 1;
    }
    EXPECT_GE(shared, support::draws(20));
    EXPECT_GE(apart, support::draws(20));
}

TEST(Semantics, MicroBatchesComputeWhatOneBatchComputes) {
    for (const std::uint64_t seed : support::seeds(300)) {
        const Program program(seed, Layers::samples_apart, 2 + static_cast<int>(seed % 2));
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
    }
}

/// The strategy in stages of four devices each, with a schedule.
Strategy staged(const Program& program, int stages, Schedule schedule) {
    Strategy strategy = in_stages(program.strategy, stages, 4);
    strategy.policy.schedule = schedule;
    return strategy;
}

TEST(Semantics, SchedulesComputeWhatOneBatchComputes) {
    int checked = 0;
    int gathers = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        Program program(seed, Layers::samples_apart, 2 + static_cast<int>(seed % 2));
        const char* const schedule = seed % 3 == 0   ? "gpipe"
                                     : seed % 3 == 1 ? "1f1b"
                                                     : "eager-1f1b";
        program.strategy =
            staged(program, 1 + static_cast<int>(seed % 4) / 2 * 2, *schedule_from_text(schedule));
        // A tensor that goes past a stage and back, or summands that come from another one.
        if (find_fault(program.problem, program.strategy)) continue;
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
        ++checked;
        gathers += gathers_in_nodes(lower(program.problem, program.strategy));
    }
    EXPECT_GE(checked, support::draws(100));
    EXPECT_GE(gathers, support::draws(20));
}

int count(const TaskGraph& tasks, TaskKind kind) {
    return static_cast<int>(std::ranges::count(tasks.tasks, kind, &Task::kind));
}

// Gradients of weights in a pass of their own, also where layer blocks run again, and whether or not
// there is a schedule that puts them elsewhere.
TEST(Semantics, GradientsOfWeightsApartAreTheSame) {
    int split = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        const Schedule apart{.kind = ScheduleKind::zero_bubble_h1};
        Program program(seed, Layers::samples_apart, 2 + static_cast<int>(seed % 2),
                        seed % 3 == 0 ? Recompute::automatic : Recompute::none, apart);
        const bool scheduled = seed % 4 != 0;
        program.strategy =
            staged(program, 1 + static_cast<int>(seed % 4) / 2 * 2, scheduled ? apart : Schedule{});
        if (find_fault(program.problem, program.strategy)) continue;
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
        split += count(lower(program.problem, program.strategy), TaskKind::weights) > 0 ? 1 : 0;
    }
    EXPECT_GE(split, support::draws(100));
}

TEST(Semantics, RecomputedProgramsComputeWhatOneDeviceComputes) {
    int recomputed = 0;
    int moved = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        const int micro_batches = 1 + static_cast<int>(seed % 3);
        const Program program(seed, micro_batches > 1 ? Layers::samples_apart : Layers::any,
                              micro_batches, Recompute::automatic);
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
        const TaskGraph tasks = lower(program.problem, program.strategy);
        recomputed += count(tasks, TaskKind::recompute) > 0 ? 1 : 0;
        moved += std::ranges::any_of(tasks.buffers,
                                     [&](const Buffer& buffer) {
                                         if (!buffer.recomputed || !buffer.writer.valid())
                                             return false;
                                         return tasks.tasks[buffer.writer.index()].kind !=
                                                TaskKind::recompute;
                                     })
                     ? 1
                     : 0;
    }
    EXPECT_GE(recomputed, support::draws(100));
    EXPECT_GE(moved, support::draws(30));
}

TEST(Semantics, RecomputedSchedulesComputeWhatOneBatchComputes) {
    int checked = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        Program program(seed, Layers::samples_apart, 2 + static_cast<int>(seed % 2),
                        Recompute::automatic);
        program.strategy = staged(program, 1 + static_cast<int>(seed % 4) / 2 * 2,
                                  {.kind = ScheduleKind::one_f_one_b});
        if (find_fault(program.problem, program.strategy)) continue;
        expect_same_as_one_device(program, seed);
        if (HasFailure()) return;
        checked += count(lower(program.problem, program.strategy), TaskKind::recompute) > 0 ? 1 : 0;
    }
    EXPECT_GE(checked, support::draws(50));
}

/// <a, b> over the elements of a tensor, each counted once.
std::int64_t inner_product(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum = modulo(sum + modulo(a[i]) * modulo(b[i]));
    return sum;
}

std::vector<std::int64_t> difference(const std::vector<std::int64_t>& a,
                                     const std::vector<std::int64_t>& b) {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(modulo(a[i] - b[i]));
    return result;
}

/// <A v, y> = <v, A' y>, where A v is what a parameter v adds to the outputs y is the gradient of.
void expect_adjoint(const Program& program, TensorId parameter, std::uint64_t seed) {
    const auto elements = static_cast<std::size_t>(program.graph.tensor(parameter).elements());
    InterpreterOptions options{.constant_loss_gradient = true, .sources = {}};
    auto& v = options.sources[parameter.value];
    v.assign(elements, 0);
    const Interpretation without = interpreted(program.problem, program.strategy, options);
    for (std::size_t e = 0; e < elements; ++e) v[e] = noise_of_source(parameter, 100 + e);
    const Interpretation with = interpreted(program.problem, program.strategy, options);
    std::int64_t forward = 0;
    for (const auto& [output, value] : with.outputs) {
        std::vector<std::int64_t> y;
        for (std::size_t e = 0; e < value.data.size(); ++e) {
            y.push_back(noise_of_loss(TensorId(std::size_t{output}), e));
        }
        const auto added = difference(value.data, without.outputs.at(output).data);
        forward = modulo(forward + inner_product(added, y));
    }
    const auto gradient = difference(v, with.parameters.at(parameter.value).data);
    EXPECT_EQ(forward, inner_product(v, gradient))
        << program.graph.tensor(parameter).name << ", seed " << seed << ", "
        << text_of(program.problem, program.strategy);
}

// RULES.md 14.
TEST(Semantics, BackwardIsTheAdjointOfForward) {
    for (const std::uint64_t seed : support::seeds(100)) {
        const Program program(seed, Layers::linear, 1 + static_cast<int>(seed % 3));
        for (std::size_t i = 0; i < program.graph.tensor_count(); ++i) {
            if (program.graph.tensors()[i].role != graph::TensorRole::parameter) continue;
            expect_adjoint(program, TensorId(i), seed);
        }
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace partita::plan
