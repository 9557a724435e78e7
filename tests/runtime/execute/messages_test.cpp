// SPDX-License-Identifier: Apache-2.0
//
// What goes between processes, for task graphs that can be drawn.
#include "runtime/execute/messages.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/lowering/lower.h"
#include "runtime/execute/ranks.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"
#include "tests/support/paths.h"

namespace partita::runtime {
namespace {

using plan::TaskId;
using plan::TaskKind;
using testing::ElementsAre;
using testing::SizeIs;

/// x [8 16] -> MatMul w1 -> Relu -> MatMul w2 -> y, on devices of several processes.
class TwoLayers : public testing::Test {
protected:
    graph::OpGraph graph_ = plan::two_layers();  // x w1 mul1 relu w2 mul2 y
    cost::Machine machine_ = plan::switched_machine(4);
    plan::Problem problem_ = plan::make_problem(graph_, machine_);

    plan::TaskGraph on(const std::vector<int>& devices) {
        return plan::lower(problem_, plan::on_devices(devices));
    }
    static Messages messages(const plan::TaskGraph& tasks, std::vector<int> process_of_device,
                             int self) {
        return plan_messages(tasks,
                             {.process_of_device = std::move(process_of_device), .self = self});
    }
};

/// mul1 and relu on device 0 | mul2 on device 3: one copy, one message.
TEST_F(TwoLayers, CopiesOverProcessesAreMessages) {
    const plan::TaskGraph tasks = on({0, 0, 0, 0, 3, 3, 3});
    const Messages first = messages(tasks, {0, 0, 1, 1}, 0);
    const Messages second = messages(tasks, {0, 0, 1, 1}, 1);
    ASSERT_THAT(first.out, SizeIs(1));
    ASSERT_THAT(second.in, SizeIs(1));
    EXPECT_THAT(first.in, SizeIs(0));
    EXPECT_THAT(second.out, SizeIs(0));
    const TaskMessage& message = first.out[0];
    EXPECT_EQ(tasks.tasks[message.task.index()].kind, TaskKind::copy);
    EXPECT_EQ(message.region.volume(), 8 * 16);
    EXPECT_EQ(message.peer, 1);
    EXPECT_EQ(message.number, second.in[0].number);
    EXPECT_EQ(second.in[0].peer, 0);
    EXPECT_THAT(second.find_in(message.task, {message.buffer, message.region, true}), 0);
}

TEST_F(TwoLayers, CopiesWithinAProcessAreNone) {
    const plan::TaskGraph tasks = on({0, 0, 0, 0, 1, 1, 1});
    const Messages all = messages(tasks, {0, 0, 1, 1}, 0);
    EXPECT_THAT(all.out, SizeIs(0));
    EXPECT_THAT(all.in, SizeIs(0));
    EXPECT_EQ(all.numbers, 0);
}

/// A control edge from process 0 to process 1: a token, for which only what comes after waits.
TEST_F(TwoLayers, ControlEdgesOverProcessesAreTokens) {
    plan::TaskGraph tasks = on({0, 0, 0, 0, 0, 0, 0});
    plan::Task other = tasks.tasks[0];
    other.device = 3;
    tasks.tasks.push_back(other);  // mul1 -> relu -> mul2, and now mul1 -> other
    Csr<TaskId> successors;
    const TaskId last(tasks.size() - 1);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        if (t + 1 < tasks.size()) {
            for (const TaskId after : tasks.successors[t]) successors.items.push_back(after);
        }
        if (t == 0) successors.items.push_back(last);
        successors.end_row();
        if (t + 1 == tasks.size()) break;
    }
    tasks.successors = successors;
    tasks.reads.end_row();
    tasks.writes.end_row();

    const Messages first = messages(tasks, {0, 0, 1, 1}, 0);
    const Messages second = messages(tasks, {0, 0, 1, 1}, 1);
    ASSERT_THAT(first.out, SizeIs(1));
    EXPECT_FALSE(first.out[0].buffer.valid());
    EXPECT_EQ(first.messages_out, 0);
    EXPECT_THAT(first.released[0], ElementsAre(0));
    EXPECT_THAT(second.awaited[last.index()], ElementsAre(0));
    EXPECT_EQ(second.in[0].number, first.out[0].number);
}

/// The batch over 4 devices in 2 processes: gradients meet, unless devices share workers.
TEST_F(TwoLayers, EqualGradientsMeet) {
    const plan::Problem training = plan::make_problem(graph_, machine_,
                                                      {.mode = plan::Mode::training,
                                                       .objective = plan::Objective::step_time,
                                                       .policy = {},
                                                       .constraints = {},
                                                       .input_sample_dims = {0}});
    const plan::TaskGraph tasks = plan::lower(
        training, search::data_parallel_strategy(training, plan::DeviceSet::progression(0, 4, 1)));
    Ownership ownership{.process_of_device = {0, 0, 1, 1}, .self = 1};
    const Messages apart = plan_messages(tasks, ownership);
    ASSERT_GE(apart.meetings.size(), 1U);
    EXPECT_THAT(apart.in, SizeIs(0));
    std::int64_t numbers = 0;
    for (const Meeting& meeting : apart.meetings) {
        EXPECT_EQ(tasks.tasks[meeting.task.index()].kind, TaskKind::collective);
        EXPECT_EQ(apart.meeting_of(meeting.task), &meeting);
        EXPECT_EQ(meeting.first_number, numbers);
        numbers += 4 * 4;
        ASSERT_THAT(meeting.buffers, SizeIs(4));
        for (std::size_t rank = 0; rank < 4; ++rank) {
            for (const auto& [given, made] : meeting.buffers[rank]) {
                EXPECT_EQ(tasks.buffers[given.index()].device, static_cast<int>(rank));
                EXPECT_EQ(tasks.buffers[made.index()].device, static_cast<int>(rank));
                EXPECT_EQ(tasks.buffers[given.index()].region, tasks.buffers[made.index()].region);
            }
        }
    }
    EXPECT_EQ(apart.numbers, numbers);

    ownership.workers_of_their_own = false;
    const Messages shared = plan_messages(tasks, ownership);
    EXPECT_THAT(shared.meetings, SizeIs(0));
    EXPECT_GE(shared.in.size(), 2U);
}

TEST(Divided, GivesEachProcessABlock) {
    EXPECT_THAT(divided(plan::switched_machine(5), 2), ElementsAre(0, 0, 0, 1, 1));
    EXPECT_THAT(divided(plan::switched_machine(4), 4), ElementsAre(0, 1, 2, 3));
}

TEST(Divided, KeepsNodesTogether) {
    EXPECT_THAT(divided(plan::switched_machine(4, {1, 0, 1, 1}), 2), ElementsAre(1, 0, 1, 1));
    EXPECT_THAT(divided(plan::switched_machine(4, {1, 0, 1, 0}), 4), ElementsAre(2, 0, 3, 1));
}

TEST(Divided, RefusesMoreProcessesThanDevices) {
    EXPECT_THROW((void)divided(plan::switched_machine(2), 3), UsageError);
}

/// Zeros, and how many bytes were read of each tensor.
class CountingSource final : public graph::TensorSource {
public:
    void read(const std::string& name, Bytes /*offset*/, std::span<std::byte> out) const override {
        std::ranges::fill(out, std::byte{0});
        const std::lock_guard lock(mutex_);
        bytes_[name] += std::ssize(out);
    }
    [[nodiscard]] std::int64_t bytes(const std::string& name) const { return bytes_.at(name); }

private:
    mutable std::mutex mutex_;
    mutable std::map<std::string, std::int64_t> bytes_;
};

/// w1 is needed on device 0, w2 on device 3. One byte more: the last one is looked for first.
TEST_F(TwoLayers, ProcessesReadWhatTheirDevicesHold) {
    const CountingSource source;
    const Sources sources(graph_, {.model = &source, .inputs = {}});
    const auto strategy = plan::on_devices({0, 0, 0, 0, 3, 3, 3});
    const Executed result = executed_by({.count = 4}, problem_, strategy, sources, 1);
    EXPECT_THAT(result.outputs, SizeIs(1));
    EXPECT_EQ(source.bytes("w1"), 4 * 16 * 16 + 1);
    EXPECT_EQ(source.bytes("w2"), 4 * 16 * 4 + 1);
}

/// [[1 0] [1 1]] has three non-zero elements of four at most.
TEST(Messages, BringExtentsThatDependOnData) {
    const auto folder = tests::node_tests() / "test_nonzero_example";
    const importers::OnnxModel model = importers::import_onnx(folder / "model.onnx", {});
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(model.graph, machine);
    const graph::HostTensor input{
        .name = "condition",
        .dtype = graph::DType::boolean,
        .shape = {2, 2},
        .bytes = {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}}};
    const Sources sources(model.graph,
                          {.model = model.source.get(), .inputs = {{input.name, input}}});
    const auto expected = executed(problem, plan::on_devices({0, 0, 0}), sources, 1, 1);
    const auto actual = executed_by({.count = 2}, problem, plan::on_devices({0, 0, 1}), sources, 2);
    ASSERT_THAT(actual.outputs, SizeIs(1));
    EXPECT_THAT(expected.outputs[0].shape, ElementsAre(2, 3));
    EXPECT_EQ(actual.outputs[0].shape, expected.outputs[0].shape);
    EXPECT_EQ(largest_difference(actual.outputs, expected.outputs), 0.0);
}

}  // namespace
}  // namespace partita::runtime
