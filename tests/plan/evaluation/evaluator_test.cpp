// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/evaluator.h"

#include <gtest/gtest.h>

#include "plan/evaluation/max_load.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

ProblemOptions throughput() {
    ProblemOptions options;
    options.objective = Objective::throughput;
    return options;
}

// a (2, copy 3) on gpu0; b (4), c (5) on gpu1; d (1) on gpu2.
//     gpu0: 2 + 3 sent once                 = 5
//     gpu1: 4 + 5 + 3 received once         = 12
//     gpu2: 1 + 3 received once             = 4
TEST(MaxLoad, SenderPaysOnceAndEachReceiverOnce) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 2, {}, 3)
                                     .node("b", 4, {"a"}, 0)
                                     .node("c", 5, {"a"}, 0)
                                     .node("d", 1, {"a"}, 0)
                                     .build();
    const cost::Machine machine = switched_machine(3);
    const Problem problem = make_problem(graph, machine, throughput());
    const auto evaluation =
        make_evaluator(problem, Scheduler::pct)->evaluate(on_devices({0, 1, 1, 2}));
    EXPECT_EQ(evaluation.value, microseconds(12));
    EXPECT_EQ(evaluation.devices[0].busy, microseconds(5));
    EXPECT_EQ(evaluation.devices[1].busy, microseconds(12));
    EXPECT_EQ(evaluation.devices[2].busy, microseconds(4));
}

// The same with a on a CPU: ten times slower there, no communication charged to it, but each
// accelerator still pays for what it receives.
TEST(MaxLoad, CpusPayNoCommunication) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 2, {}, 3).node("b", 4, {"a"}, 0).build();
    const cost::Machine gpus = switched_machine(2);
    std::vector<cost::Device> devices(gpus.devices().begin(), gpus.devices().end());
    devices[0].kind = cost::DeviceKind::cpu;
    const cost::Machine machine("mixed", devices, {"switch"},
                                {gpus.links().begin(), gpus.links().end()});
    const Problem problem = make_problem(graph, machine, throughput());
    const Evaluation evaluation = given_max_load(problem, on_devices({0, 1}));
    EXPECT_EQ(evaluation.devices[0].busy, microseconds(20));
    EXPECT_EQ(evaluation.devices[1].busy, microseconds(4 + 3));
}

// Costs of nothing are nothing: loads agree with the published ones to the last digit.
TEST(MaxLoad, OfNodesThatTakeNoTimeIsNothing) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 0, {}, 0).node("b", 0, {"a"}, 0).build();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, throughput());
    EXPECT_EQ(given_max_load(problem, on_devices({0, 1})).value, Time{0});
}

TEST(MaxLoad, OfAModelIsItsBusiestResource) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, throughput());
    const Strategy strategy = on_devices({0, 0, 0, 0, 1, 1, 1});
    const Evaluation evaluation = make_evaluator(problem, Scheduler::pct)->evaluate(strategy);
    const graph::TensorId active = graph.op(*graph.find_op("relu")).outputs[0];
    // 512 bytes at 1 GB/s over two hops of 1 us: the copy takes longer than any computation.
    EXPECT_EQ(evaluation.value, problem.transfers().copy_time(active, 0, 1));
    EXPECT_EQ(evaluation.value, busiest_resource(lower(problem, strategy)));
}

TEST(Evaluation, MemoryComesBeforeTime) {
    const Evaluation fits{.overflow = Bytes{0}, .value = microseconds(9), .devices = {}};
    const Evaluation fast{.overflow = Bytes{1}, .value = microseconds(1), .devices = {}};
    EXPECT_TRUE(fits.better_than(fast));
    EXPECT_FALSE(fast.better_than(fits));
    EXPECT_FALSE(fits.better_than(fits));
}

/// Two ops that fit on one device each and not together: 700 and 500 bytes, and room for 1,000.
class MemoryOfTwoOps : public testing::Test {
protected:
    const Problem& problem() { return problem_; }

private:
    static ProblemOptions options() {
        ProblemOptions options = throughput();
        options.constraints.memory_limit = Bytes{1000};
        return options;
    }

    graph::OpGraph graph_ = WorkloadBuilder()
                                .node("a", 1, {}, 0, Bytes{700})
                                .node("b", 1, {"a"}, 0, Bytes{500})
                                .build();
    cost::Machine machine_ = switched_machine(2);
    Problem problem_ = make_problem(graph_, machine_, options());
};

TEST_F(MemoryOfTwoOps, OverflowIsWhatIsAboveTheCapacity) {
    const auto evaluator = make_evaluator(problem(), Scheduler::pct);
    EXPECT_EQ(evaluator->evaluate(on_devices({0, 0})).overflow, Bytes{200});
    EXPECT_EQ(evaluator->evaluate(on_devices({0, 1})).overflow, Bytes{0});
}

TEST_F(MemoryOfTwoOps, SaysWhyItIsNotFeasible) {
    const auto why = [&](const std::vector<int>& devices) {
        const Strategy strategy = on_devices(devices);
        return why_infeasible(problem(), strategy,
                              make_evaluator(problem(), Scheduler::pct)->evaluate(strategy));
    };
    EXPECT_EQ(why({1, 1}), "gpu1 needs 1.17 KiB (1200 bytes) and has 1000 B (1000 bytes)");
    EXPECT_EQ(why({0, 1}), "");
}

TEST(Evaluation, SaysWhatIsWrongWithAScheduleBeforeMemory) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options;
    options.mode = Mode::training;
    options.policy.micro_batches = 2;
    options.policy.schedule = *schedule_from_text("1f1b");
    options.constraints.memory_limit = Bytes{1};
    const Problem problem = make_problem(graph, machine, options);
    const auto evaluator = make_evaluator(problem, Scheduler::pct);
    const Strategy kept = whole_ops({0, 0, 0, 0, 1, 1, 1}, options.policy);
    const Strategy broken = whole_ops({0, 0, 0, 1, 0, 0, 0}, options.policy);  // back to stage 0
    EXPECT_EQ(why_infeasible(problem, kept, evaluator->evaluate(kept)).find("gpu0 needs"), 0U);
    ASSERT_FALSE(evaluator->evaluate(broken).keeps_schedule);
    EXPECT_EQ(why_infeasible(problem, broken, evaluator->evaluate(broken)),
              find_schedule_fault(problem, broken));
}

}  // namespace
}  // namespace partita::plan
