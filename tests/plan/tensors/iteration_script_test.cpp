// SPDX-License-Identifier: Apache-2.0
//
// The script of an iteration tells of everything that happens to tensors, once and in order, and of
// the parts of every op in each pass.
#include "plan/tensors/iteration_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "search/support/random.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::OpKind;
using Kind = TensorEvent::Kind;

class Script : public testing::TestWithParam<std::tuple<Mode, int>> {
protected:
    void for_each_script(const std::function<void(const Problem&, const IterationScript&)>& check) {
        const auto [mode, micro_batches] = GetParam();
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            search::Random random(seed);
            const graph::OpGraph graph = support::random_network(random, 20);
            const cost::Machine machine = switched_machine(2);
            ProblemOptions options;
            options.mode = mode;
            if (mode == Mode::training) options.objective = Objective::step_time;
            const Problem problem = make_problem(graph, machine, options);
            check(problem, iteration_script(problem, {.micro_batches = micro_batches}));
        }
    }
};

TEST_P(Script, TellsOfEveryEventOnceAndInItsTensorsOrder) {
    for_each_script([](const Problem& /*problem*/, const IterationScript& script) {
        std::vector<std::size_t> next(script.tensors.size(), 0);
        std::uint32_t at = 0;
        for (const ScriptStep& step : script.steps) {
            ASSERT_EQ(step.begin, at);
            ASSERT_LE(step.begin, step.parts);
            ASSERT_LE(step.parts, step.end);
            for (; at < step.end; ++at) {
                const EventId id = script.events[at];
                ASSERT_EQ(id.event, next[id.row]++);
                const TensorEvent& event = script.tensors[id.row].events[id.event];
                EXPECT_EQ(event.op, step.op);
                EXPECT_EQ(event.pass, step.pass);
            }
        }
        EXPECT_EQ(at, script.events.size());
        for (std::size_t row = 0; row < next.size(); ++row) {
            EXPECT_EQ(next[row], script.tensors[row].events.size());
        }
    });
}

TEST_P(Script, RunsPartsOncePerPassAfterWhatTheyFind) {
    const int micro_batches = std::get<1>(GetParam());
    for_each_script([&](const Problem& problem, const IterationScript& script) {
        const MicroBatchRows rows(problem.facts(), micro_batches);
        std::set<std::size_t> ran;
        for (const ScriptStep& step : script.steps) {
            for (const EventId id : script.before_parts(step)) {
                const TensorEvent& event = script.tensors[id.row].events[id.event];
                if (!step.has_parts) continue;
                EXPECT_TRUE(event.kind != Kind::produce && event.kind != Kind::contribute);
            }
            if (!step.has_parts) continue;
            const PartBlock block{step.op, rows.own(step.op, step.micro_batch), step.pass};
            EXPECT_EQ(rows.block(rows.row(block)), block);
            EXPECT_TRUE(ran.insert(rows.row(block)).second);
            const bool loss = problem.graph().op(step.op).kind == OpKind::output;
            if (step.pass == Pass::forward || loss) continue;
            EXPECT_TRUE(ran.contains(rows.row({step.op, block.micro_batch, Pass::forward})));
        }
        for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
            const OpId op(i);
            if (problem.graph().op(op).kind != OpKind::compute) continue;
            for (int m = 0; m < micro_batches && rows.runs_in(op, m); ++m) {
                EXPECT_TRUE(ran.contains(rows.row({op, m, Pass::forward})));
                EXPECT_EQ(ran.contains(rows.row({op, m, Pass::backward})),
                          problem.facts().has_backward(op));
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Iterations, Script,
                         testing::Values(std::tuple(Mode::inference, 1),
                                         std::tuple(Mode::inference, 2),
                                         std::tuple(Mode::training, 1),
                                         std::tuple(Mode::training, 3)));

}  // namespace
}  // namespace partita::plan
