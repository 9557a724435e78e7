// SPDX-License-Identifier: Apache-2.0
//
// Schedules on pipelines of equal stages without transfer times have textbook bubbles and as many
// activations in flight as the papers say (RULES 22 and 23); on unequal stages with transfer times
// the limits and the order hold all the same.
#include "plan/strategy/pipeline_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorId;
using testing::ElementsAre;
using testing::HasSubstr;

Schedule schedule(std::string_view text) {
    return schedule_from_text(text).value();
}

std::string letters(std::string_view text, const PipelineShape& shape, int stage) {
    std::string found;
    for (const Block& block : sequence_of(schedule(text), shape, stage)) {
        const char letter = block.pass == Pass::forward    ? 'F'
                            : block.pass == Pass::backward ? 'B'
                                                           : 'W';
        found += found.empty() ? "" : " ";
        found += block.chunk == 0 ? letter : static_cast<char>(letter + ('a' - 'A'));
        found += std::to_string(block.micro_batch);
    }
    return found;
}

TEST(Sequence, IsTheOneOfTheTextbook) {
    const PipelineShape shape{.stages = 2, .micro_batches = 4};
    EXPECT_EQ(letters("gpipe", shape, 0), "F0 F1 F2 F3 B0 B1 B2 B3");
    EXPECT_EQ(letters("1f1b", shape, 0), "F0 F1 B0 F2 B1 F3 B2 B3");
    EXPECT_EQ(letters("1f1b", shape, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
    EXPECT_EQ(letters("eager-1f1b", shape, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
    EXPECT_EQ(letters("interleaved:2", shape, 0),
              "F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3");
    EXPECT_EQ(letters("interleaved:2", shape, 1),
              "F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3");
}

// Where 1F1B waits for the stages before and after, gradients of weights fill in.
TEST(Sequence, OfZeroBubbleHasGradientsOfWeightsApart) {
    const PipelineShape shape{.stages = 3, .micro_batches = 4};
    EXPECT_EQ(letters("zb-h1", shape, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    EXPECT_EQ(letters("zb-h1", shape, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    EXPECT_EQ(letters("zb-h1", shape, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    EXPECT_EQ(letters("zb-h1", {.stages = 3, .micro_batches = 1}, 2), "F0 B0 W0");
}

TEST(Sequence, OfInferenceIsItsForwards) {
    const PipelineShape shape{.stages = 2, .micro_batches = 3, .training = false};
    EXPECT_EQ(letters("1f1b", shape, 0), "F0 F1 F2");
}

RC_GTEST_PROP(Sequence, HoldsEachBlockOnceAndKeepsItsWindow, ()) {
    const int stages = *rc::gen::inRange(1, 6);
    const Schedule of = *rc::gen::element(schedule("gpipe"), schedule("1f1b"),
                                          schedule("eager-1f1b"), schedule("interleaved:3"));
    const int micro_batches = stages * *rc::gen::inRange(1, 5);
    const PipelineShape shape{.stages = stages, .micro_batches = micro_batches};
    const int stage = *rc::gen::inRange(0, stages);
    const std::vector<Block> blocks = sequence_of(of, shape, stage);
    RC_ASSERT(std::ssize(blocks) == 2 * micro_batches * of.chunks);
    int in_flight = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        RC_ASSERT(std::find(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(i),
                            blocks[i]) == blocks.begin() + static_cast<std::ptrdiff_t>(i));
        in_flight += blocks[i].pass == Pass::forward ? 1 : -1;
        RC_ASSERT(in_flight >= 0 && in_flight <= window_of(of, shape, stage));
    }
}

// What is saved goes with the last pass that reads it.
RC_GTEST_PROP(Sequence, HoldsAsManyBlocksAsItSays, ()) {
    const int stages = *rc::gen::inRange(1, 6);
    const Schedule of =
        *rc::gen::element(schedule("gpipe"), schedule("1f1b"), schedule("eager-1f1b"),
                          schedule("interleaved:3"), schedule("zb-h1"));
    const int unit = of.kind == ScheduleKind::interleaved ? stages : 1;
    const int micro_batches = unit * *rc::gen::inRange(1, 5 * stages / unit);
    const PipelineShape shape{.stages = stages, .micro_batches = micro_batches};
    const int stage = *rc::gen::inRange(0, stages);
    const Pass last = splits_backward_of(of) ? Pass::weights : Pass::backward;
    int held = 0;
    int most = 0;
    for (const Block& block : sequence_of(of, shape, stage)) {
        held += block.pass == Pass::forward ? 1 : block.pass == last ? -1 : 0;
        most = std::max(most, held);
    }
    RC_ASSERT(held == 0);
    RC_ASSERT(most == held_blocks(of, shape, stage));
}

/// Times of the ops of the chain below by name of their operator; everything else is free.
class ChainCosts final : public cost::CostModel {
public:
    ChainCosts(std::string op, Time forward, Time backward)
        : op_(std::move(op)), forward_(forward), backward_(backward) {}
    std::optional<cost::Price> price(const cost::Work& work,
                                     const cost::Device& device) const override {
        Time time;
        if (work.type == op_) {
            time = work.phase == cost::Phase::forward    ? forward_
                   : work.phase == cost::Phase::backward ? backward_
                                                         : Time{0};
            // One of two gradients: half of the backward.
            if (work.phase == cost::Phase::backward && work.flops == kProduct) {
                time = Time(time.raw() / 2);
            }
            time = device.vector_flops * time;  // a device's slowness
        }
        return cost::Price{.time = time};
    }
    std::string name() const override { return "chain"; }

private:
    static constexpr Flops kProduct{36};  ///< of a micro-batch: [2 3] [3 3]
    std::string op_;
    Time forward_;
    Time backward_;
};

/// One op per stage and chunk:
///
///     x ─▶ Mul w ─▶ Relu ─▶ Relu ─▶ ... ─▶ y        the first Relu with the Mul on device 0
class Chain {
public:
    struct Options {
        int stages = 4;
        int micro_batches = 8;
        std::string schedule = "none";
        std::string op = "Relu";  ///< or MatMul, with a weight each
        Time forward{1'000'000};
        Time backward{2'000'000};
        Time hop{0};                              ///< between two devices
        std::vector<std::int64_t> slowness = {};  ///< per stage; empty: 1
    };

    explicit Chain(const Options& options)
        : schedule_(plan::schedule(options.schedule)),
          op_(options.op),
          stages_(options.stages),
          micro_batches_(options.micro_batches),
          machine_(machine_of(options)),
          problem_(graph_of(stages_ * schedule_.chunks, micro_batches_), machine_,
                   std::make_shared<ChainCosts>(op_, options.forward, options.backward),
                   {.mode = Mode::training,
                    .objective = Objective::step_time,
                    .policy = {.micro_batches = micro_batches_, .schedule = schedule_}}),
          tasks_(lower(problem_, strategy())),
          timeline_(simulate(tasks_, Scheduler::pct)) {}

    [[nodiscard]] Strategy strategy() const {
        std::vector<int> devices;
        int relus = 0;
        for (const graph::Op& op : graph_.ops()) {
            if (op.type == op_) ++relus;
            // A weight comes before its product.
            const bool weight = op.kind == graph::OpKind::parameter && op.name != "w";
            devices.push_back(std::max(relus - (weight ? 0 : 1), 0) % stages_);
        }
        return whole_ops(devices, problem_.policy());
    }
    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] const TaskGraph& tasks() const { return tasks_; }
    [[nodiscard]] const Timeline& timeline() const { return timeline_; }

    /// (makespan - work) / work of a device that works as long as every other.
    [[nodiscard]] double bubble() const { return timeline_.makespan / timeline_.busy[0] - 1; }

    /// Most micro-batches of chunks that a device has begun and not given the gradient of.
    [[nodiscard]] int in_flight(int device) const {
        int most = 0;
        int now = 0;
        for (const TaskId id : timeline_.commit_order) {
            const Task& task = tasks_.tasks[id.index()];
            if (task.device != device || graph_.op(task.op).type != op_) continue;
            if (task.kind == TaskKind::forward) most = std::max(most, ++now);
            if (task.kind == TaskKind::backward) --now;
        }
        EXPECT_EQ(now, 0);
        return most;
    }

    /// The blocks of a device as they ran.
    [[nodiscard]] std::vector<Block> course(int device) const {
        const Pipeline pipeline = pipeline_of(problem_, strategy());
        std::vector<Block> blocks;
        for (const TaskId id : timeline_.commit_order) {
            const Task& task = tasks_.tasks[id.index()];
            if (task.device != device || graph_.op(task.op).type != op_) continue;
            const Pass pass = task.kind == TaskKind::forward    ? Pass::forward
                              : task.kind == TaskKind::backward ? Pass::backward
                                                                : Pass::weights;
            const bool known = pass != Pass::weights || task.kind == TaskKind::weights;
            if (!known) continue;
            blocks.push_back({.pass = pass,
                              .chunk = pipeline.chunk(task.op),
                              .micro_batch = std::max(task.micro_batch, 0)});
        }
        return blocks;
    }

private:
    static cost::Machine machine_of(const Options& options) {
        std::vector<cost::Device> devices;
        std::vector<cost::Link> links;
        for (int i = 0; i < options.stages; ++i) {
            cost::Device device;
            device.name = "gpu" + std::to_string(i);
            device.model = "test";
            device.memory = Bytes{1'000'000'000};
            device.memory_bandwidth = 1'000'000'000;
            device.matrix_flops.fill(1'000'000'000);
            device.vector_flops =
                options.slowness.empty() ? 1 : options.slowness[static_cast<std::size_t>(i)];
            devices.push_back(device);
            cost::Link link;
            link.name = "link" + std::to_string(i);
            link.from = i;
            link.to = options.stages;
            link.bandwidth = 1'000'000'000'000'000'000;
            link.latency = Time(options.hop.raw() / 2);
            links.push_back(link);
        }
        return {"chain", std::move(devices), {"switch"}, std::move(links)};
    }

    const graph::OpGraph& graph_of(int relus, int micro_batches) {
        const graph::Shape shape{2 * micro_batches, 3};
        const TensorId x = add_source(graph_, "x", graph::TensorRole::input, shape);
        const TensorId w = add_source(graph_, "w", graph::TensorRole::parameter, {1, 3});
        TensorId last = add_compute(graph_, "mul", "Mul", {x, w}, shape);
        for (int i = 0; i < relus; ++i) {
            std::vector<TensorId> operands{last};
            if (op_ == "MatMul") {
                operands.push_back(add_source(graph_, "w" + std::to_string(i),
                                              graph::TensorRole::parameter, {3, 3}));
            }
            last = add_compute(graph_, "relu" + std::to_string(i), op_, std::move(operands), shape);
        }
        graph_.add_output("y", last);
        return graph_;
    }

    Schedule schedule_;
    std::string op_;
    int stages_;
    int micro_batches_;
    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
    TaskGraph tasks_;
    Timeline timeline_;
};

constexpr double kCopies = 1e-4;  // a copy takes a picosecond

TEST(Bubble, IsStagesLessOneOverMicroBatches) {
    for (const char* text : {"gpipe", "1f1b", "eager-1f1b"}) {
        for (const int p : {1, 2, 4, 8}) {
            for (const int m : {1, 4, 16}) {
                const Chain chain({.stages = p, .micro_batches = m, .schedule = text});
                const double expected = static_cast<double>(p - 1) / m;
                EXPECT_NEAR(chain.bubble(), expected, kCopies) << text << " " << p << " " << m;
                // The share of idle slots: (p - 1) / (m + p - 1).
                EXPECT_NEAR(1 - chain.timeline().busy[0] / chain.timeline().makespan,
                            static_cast<double>(p - 1) / (m + p - 1), kCopies);
            }
        }
    }
}

// (p - 1) (F + B - W) where 1F1B has (p - 1) (F + B + W), if W is no longer than the others (Qi et
// al., section 2.3); else what is longest sets the pace.
TEST(Bubble, OfZeroBubbleIsFilledWithGradientsOfWeights) {
    for (const double b : {0.75, 1.0, 1.5}) {  // B and W; F is 1
        for (const int p : {2, 4, 8}) {
            for (const int m : {p, 2 * p, 4 * p}) {
                Chain::Options options{.stages = p, .micro_batches = m, .op = "MatMul"};
                options.backward = Time(static_cast<std::int64_t>(2'000'000 * b));
                options.schedule = "1f1b";
                EXPECT_NEAR(Chain(options).bubble(), (p - 1.0) / m, kCopies) << p << " " << m;
                options.schedule = "zb-h1";
                const Chain chain(options);
                const double idle = (p - 1) * std::max(1.0, b);
                EXPECT_NEAR(chain.bubble(), idle / (m * (1 + 2 * b)), kCopies) << p << " " << m;
                const PipelineShape shape{.stages = p, .micro_batches = m};
                for (int stage = 0; stage < p; ++stage) {
                    EXPECT_EQ(chain.course(stage), sequence_of(schedule("zb-h1"), shape, stage));
                }
            }
        }
    }
}

TEST(Bubble, ShrinksByTheNumberOfChunks) {
    for (const int p : {2, 4}) {
        for (const int v : {2, 3}) {
            for (const int m : {p, 4 * p}) {
                const Chain chain({.stages = p,
                                   .micro_batches = m,
                                   .schedule = "interleaved:" + std::to_string(v)});
                EXPECT_NEAR(chain.bubble(), static_cast<double>(p - 1) / (v * m), kCopies)
                    << p << " " << v << " " << m;
            }
        }
    }
}

// RULES 22: a transfer of a tenth of a forward costs 1F1B twice the bubble; a wider window hides
// it.
TEST(Bubble, OfTransfersIsHiddenByAWiderWindow) {
    Chain::Options options{.stages = 4, .micro_batches = 64, .hop = Time{100'000}};
    options.schedule = "1f1b";
    const double narrow = Chain(options).bubble();
    options.schedule = "eager-1f1b";
    const double wide = Chain(options).bubble();
    EXPECT_NEAR(narrow, 0.099, 0.001);
    EXPECT_NEAR(wide, 0.050, 0.001);
}

TEST(InFlight, IsEveryMicroBatchForGPipe) {
    const Chain chain({.stages = 4, .micro_batches = 8, .schedule = "gpipe"});
    for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(chain.in_flight(stage), 8);
}

TEST(InFlight, IsTheStagesAheadForOneForwardOneBackward) {
    const Chain chain({.stages = 4, .micro_batches = 8, .schedule = "1f1b"});
    for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(chain.in_flight(stage), 4 - stage);
}

TEST(InFlight, IsNearlyTwiceThatForTheEagerOne) {
    const Chain chain({.stages = 4, .micro_batches = 8, .schedule = "eager-1f1b"});
    for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(chain.in_flight(stage), 7 - 2 * stage);
}

TEST(InFlight, OfTheFirstStageIsStagesTimesChunksAndStagesLessOneWhenInterleaved) {
    for (const int v : {2, 3}) {
        const Chain chain(
            {.stages = 4, .micro_batches = 16, .schedule = "interleaved:" + std::to_string(v)});
        EXPECT_EQ(chain.in_flight(0), 4 * v + 4 - 1);
    }
}

// Micro-batches of one size, twice as many of them.
TEST(InFlight, IsWhatMemoryGrowsWith) {
    const auto peak = [](const char* text, int micro_batches) {
        const Chain chain({.stages = 4, .micro_batches = micro_batches, .schedule = text});
        return peak_memory(chain.tasks(), chain.timeline().commit_order)[1].raw();
    };
    constexpr std::int64_t kActivation = 2 * 3 * 4;
    EXPECT_EQ(peak("1f1b", 16), peak("1f1b", 8));
    EXPECT_GE(peak("gpipe", 16), peak("gpipe", 8) + 8 * kActivation);
}

TEST(Interleaved, CommunicatesOncePerChunkMore) {
    const auto copies = [](const Chain& chain) {
        return std::count_if(chain.tasks().tasks.begin(), chain.tasks().tasks.end(),
                             [](const Task& task) { return task.kind == TaskKind::copy; });
    };
    const Chain plain({.stages = 4, .micro_batches = 8, .schedule = "1f1b"});
    const Chain interleaved({.stages = 4, .micro_batches = 8, .schedule = "interleaved:3"});
    EXPECT_EQ(copies(plain), 2 * 8 * (4 - 1));
    EXPECT_EQ(copies(interleaved), 2 * 8 * (3 * 4 - 1));
}

RC_GTEST_PROP(Schedules, KeepOrderAndWindowOnUnequalStagesWithTransfers, ()) {
    Chain::Options options;
    options.schedule = *rc::gen::element<std::string>("gpipe", "1f1b", "eager-1f1b",
                                                      "interleaved:2", "interleaved:3");
    // One stage has no chunks: nothing lies between them.
    options.stages = *rc::gen::inRange(options.schedule.starts_with("interleaved") ? 2 : 1, 5);
    options.micro_batches = options.stages * *rc::gen::inRange(1, 5);
    options.hop = Time(*rc::gen::inRange(0, 3'000'000));
    for (int i = 0; i < options.stages; ++i) {
        options.slowness.push_back(*rc::gen::inRange(1, 60));
    }
    const Chain chain(options);
    const PipelineShape shape{.stages = options.stages, .micro_batches = options.micro_batches};
    for (int stage = 0; stage < options.stages; ++stage) {
        const Schedule of = schedule(options.schedule);
        RC_ASSERT(chain.course(stage) == sequence_of(of, shape, stage));
        RC_ASSERT(chain.in_flight(stage) <= window_of(of, shape, stage));
    }
}

class Pipelines : public testing::Test {
protected:
    std::string fault(Chain& chain, const std::vector<int>& relus, std::string_view text) {
        Strategy strategy = chain.strategy();
        strategy.policy.schedule = schedule(text);
        std::size_t next = 0;
        for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
            const graph::Op& op = chain.problem().graph().ops()[i];
            if (op.type == "Relu") {
                strategy.ops[i].config.devices = DeviceSet::single(relus[next++]);
            } else if (op.kind == graph::OpKind::output) {
                strategy.ops[i].config.devices = DeviceSet::single(relus.back());
            }
        }
        return find_fault(chain.problem(), strategy).value_or("");
    }
};

TEST_F(Pipelines, AreOrderedByTheirDataNotByTheirDevices) {
    Chain chain({.stages = 3, .micro_batches = 6});
    Strategy strategy = whole_ops({2, 2, 2, 2, 0, 1, 1}, chain.problem().policy());
    const Pipeline pipeline = pipeline_of(chain.problem(), strategy);
    EXPECT_EQ(pipeline.stages, 3);
    EXPECT_EQ(pipeline.chunks, 1);
    EXPECT_THAT(pipeline.stage_of_device, ElementsAre(1, 2, 0));
    EXPECT_THAT(pipeline.position, ElementsAre(-1, -1, 0, 0, 1, 2, 2));
}

TEST_F(Pipelines, ThatComeBackNeedAsManyChunks) {
    Chain chain({.stages = 2, .micro_batches = 4, .schedule = "interleaved:2"});
    EXPECT_EQ(fault(chain, {0, 1, 0, 1}, "interleaved:2"), "");
    EXPECT_EQ(fault(chain, {0, 0, 1, 1}, "1f1b"), "");
    EXPECT_THAT(fault(chain, {0, 1, 0, 1}, "1f1b"),
                HasSubstr("op 'relu2' (Relu): lies on stage 0 of 2, but needs what a later stage "
                          "makes; schedule 1f1b passes each stage once"));
    EXPECT_THAT(fault(chain, {0, 0, 1, 1}, "interleaved:2"),
                HasSubstr("the data passes the 2 stages 1 times, not 2"));
    EXPECT_EQ(fault(chain, {0, 1, 0, 1}, "none"), "");
}

TEST_F(Pipelines, InterleavedNeedMultiplesOfTheirStages) {
    Chain chain({.stages = 2, .micro_batches = 4, .schedule = "interleaved:2"});
    Strategy strategy = chain.strategy();
    strategy.policy.micro_batches = 1;
    EXPECT_THAT(find_fault(chain.problem(), strategy).value_or(""),
                HasSubstr("1 micro-batches are no multiple of the 2 stages"));
}

}  // namespace
}  // namespace partita::plan
