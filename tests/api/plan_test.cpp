// SPDX-License-Identifier: Apache-2.0
#include <partita/plan.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/impl.h"
#include "cost/machine/machine.h"
#include "tests/api/networks.h"
#include "tests/support/temporary_folder.h"

#include <partita/search.h>

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct PlanTest : testing::Test {
    Model model{tests::convnet(64)};
    Machine machine = Machine::load("dgx-1-v100:1x4");
    Plan plan = find_plan(model, machine,
                          {.mode = Mode::training,
                           .micro_batches = 2,
                           .schedule = Schedule::none,
                           .searchers = {"data-parallel"},
                           .evaluations = 20})
                    .plan();
};

TEST_F(PlanTest, SaysHowItWasMade) {
    EXPECT_EQ(plan.mode(), Mode::training);
    EXPECT_EQ(plan.objective(), Objective::step_time);
    EXPECT_EQ(plan.micro_batches(), 2);
    EXPECT_EQ(plan.schedule(), Schedule::none);
    EXPECT_EQ(to_text(plan.mode()), "training");
    EXPECT_EQ(to_text(plan.objective()), "step-time");
    EXPECT_EQ(to_text(plan.schedule()), "none");
    EXPECT_EQ(to_text(Schedule::eager_1f1b), "eager-1f1b");
    EXPECT_THROW(static_cast<void>(to_text(Schedule{99})), UsageError);
    EXPECT_GT(plan.value(), Time{0});
    EXPECT_LE(plan.lower_bound(), plan.value());
    EXPECT_EQ(cost::digest(plan.machine().impl().machine), cost::digest(machine.impl().machine));
}

TEST_F(PlanTest, OpsAreThoseOfTheModelWithOneDevicePerPart) {
    const auto infos = model.ops();
    const auto ops = plan.ops();
    ASSERT_EQ(ops.size(), infos.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
        EXPECT_EQ(ops[i].name, infos[i].name);
        EXPECT_EQ(ops[i].type, infos[i].type);
        std::size_t parts = 1;
        for (const FactorDegree& axis : ops[i].degrees) {
            parts *= static_cast<std::size_t>(axis.degree);
        }
        EXPECT_EQ(ops[i].devices.size(), parts) << ops[i].name;
        EXPECT_EQ(plan.op(ops[i].name), ops[i]);
    }
}

TEST_F(PlanTest, OfDataParallelismCutsTheBatchAndAddsUpGradients) {
    const OpPlan conv = plan.op("/left/Conv");
    ASSERT_EQ(conv.degrees.size(), 1U);
    EXPECT_EQ(conv.degrees[0].degree, 4);
    EXPECT_THAT(conv.devices, ElementsAre(0, 1, 2, 3));
    const auto factors = model.factors("/left/Conv");
    const auto batch = std::ranges::find(factors, conv.degrees[0].factor, &FactorInfo::name);
    ASSERT_NE(batch, factors.end());
    EXPECT_THAT(batch->results, ElementsAre(DimOf{0, 0}));
    EXPECT_THAT(plan.collectives(), Not(IsEmpty()));
}

TEST_F(PlanTest, DescribesItself) {
    const PlanDescription description = plan.description(model);
    EXPECT_EQ(description.devices, 4);
    EXPECT_EQ(description.data, 4);
    EXPECT_EQ(description.stages, 1);
    EXPECT_EQ(description.tensor, 1);
    EXPECT_TRUE(description.regular);
    ASSERT_FALSE(description.lines.empty());
    EXPECT_THAT(description.lines[0], HasSubstr("data x 4 on 4 devices"));

    const Throughput throughput = plan.throughput(model);
    const double seconds = static_cast<double>(plan.value().raw()) / 1e12;
    EXPECT_NEAR(throughput.samples_per_second * seconds, 64, 1e-6);
    EXPECT_EQ(throughput.tokens_per_second, 0);
    EXPECT_GT(throughput.mfu, 0);

    const auto moved = plan.communication(model);
    ASSERT_FALSE(moved.empty());
    std::int64_t collectives = 0;
    for (const CommunicationPlan& each : moved) {
        EXPECT_EQ(each.of == "gradients" || each.of == "parameters", true) << each.of;
        if (each.kind != "copy") collectives += each.messages;
    }
    EXPECT_EQ(collectives, static_cast<std::int64_t>(plan.collectives().size()));
}

TEST_F(PlanTest, DescribesItselfForItsOwnModelOnly) {
    const Model other(tests::mlp(64));
    EXPECT_THROW(static_cast<void>(plan.communication(other)), InputError);
}

// A quarter of each micro-batch of 32 on each device; what each adds to the gradient of the weight is a
// summand of its own.
TEST_F(PlanTest, SaysHowTensorsLieOnDevices) {
    const auto all = plan.layouts(model);
    ASSERT_EQ(all.size(), model.ops().size());
    const auto conv = std::ranges::find(all, "/left/Conv", &OpLayouts::op);
    ASSERT_NE(conv, all.end());
    const auto& input = conv->operands[0].parts;
    ASSERT_EQ(input.size(), 4U);
    for (std::size_t i = 0; i < input.size(); ++i) {
        const auto begin = static_cast<std::int64_t>(8 * i);
        EXPECT_EQ(input[i].device, static_cast<int>(i));
        EXPECT_THAT(input[i].dims[0], ElementsAre(PositionRange{begin, begin + 8}));
    }
    EXPECT_EQ(conv->operands[0].summands, 1);
    EXPECT_EQ(conv->operands[1].summands, 1);
    EXPECT_EQ(conv->operand_gradients[1].summands, 4);
    EXPECT_EQ(conv->operand_gradients[1].combine, "sum");
    EXPECT_EQ(conv->operand_gradients[1].tensor, conv->operands[1].tensor);
    EXPECT_THROW(static_cast<void>(plan.layouts(Model(tests::mlp(64)))), InputError);
}

TEST_F(PlanTest, OfInferenceHasNoLayoutsOfGradients) {
    const Plan inference = find_plan(model, machine, {.evaluations = 5}).plan();
    for (const OpLayouts& each : inference.layouts(model)) {
        EXPECT_THAT(each.operand_gradients, IsEmpty()) << each.op;
        EXPECT_THAT(each.result_gradients, IsEmpty()) << each.op;
    }
}

struct RecomputingPlan : testing::Test {
    PlanOptions options{.mode = Mode::training,
                        .recompute = Recompute::full,
                        .searchers = {"data-parallel"},
                        .evaluations = 20};
    Model model{tests::layers(64, 3)};
    Machine machine = Machine::load("dgx-1-v100:1x2");
    Plan plan = find_plan(model, machine, options).plan();

    [[nodiscard]] std::set<std::string> again() const {
        std::set<std::string> names;
        for (const RecomputedOps& block : plan.recomputed(model)) {
            names.insert(block.ops.begin(), block.ops.end());
        }
        return names;
    }
};

TEST_F(RecomputingPlan, SaysWhatRunsAgain) {
    std::vector<std::string> blocks;
    for (const RecomputedOps& block : plan.recomputed(model)) {
        blocks.push_back(block.block);
        EXPECT_THAT(block.ops, ElementsAre(block.block + "/up", block.block + "/relu"));
    }
    EXPECT_THAT(blocks, ElementsAre("layers/0", "layers/1", "layers/2"));
    const std::set<std::string> names = again();
    for (const OpPlan& op : plan.ops()) {
        EXPECT_EQ(op.recompute, names.contains(op.name) ? Recompute::full : Recompute::none)
            << op.name;
    }
    EXPECT_EQ(to_text(Recompute::full), "full");
}

TEST_F(RecomputingPlan, IsPricedAsItsOpsSay) {
    std::vector<OpPlan> ops = plan.ops();
    EXPECT_EQ(price(model, machine, ops, options).value(), plan.value());
    options.recompute = Recompute::automatic;  // the ops say it
    for (OpPlan& op : ops) {
        if (op.name.starts_with("layers/1/")) op.recompute = Recompute::none;
    }
    plan = price(model, machine, ops, options);
    EXPECT_EQ(plan.recomputed(model).size(), 2U);
    for (OpPlan& op : ops) op.recompute = Recompute::none;
    EXPECT_LT(price(model, machine, ops, options).value(), plan.value());
    std::ranges::find(ops, "layers/0/up", &OpPlan::name)->recompute = Recompute::full;
    EXPECT_THAT([&] { static_cast<void>(price(model, machine, ops, options)); },
                testing::ThrowsMessage<InputError>(HasSubstr("layers/0/")));
}

// What devices do by their tasks is what the plan says of them.
TEST_F(PlanTest, ListsItsTasks) {
    const std::vector<TaskPlan> tasks = plan.tasks(model);
    std::vector<Time> busy(plan.devices().size());
    std::map<std::string, std::int64_t> moved;
    std::set<std::string> names;
    Time last;
    for (const TaskPlan& task : tasks) {
        EXPECT_TRUE(names.insert(task.name).second) << task.name;
        EXPECT_LE(task.begin, task.end) << task.name;
        last = std::max(last, task.end);
        EXPECT_EQ(task.stands_for, 1);
        const bool moves = task.bytes > Bytes{0} || task.devices.size() > 1;
        if (!moves) {
            ASSERT_EQ(task.devices.size(), 1U) << task.name;
            busy[static_cast<std::size_t>(task.devices[0])] += task.end - task.begin;
            EXPECT_EQ(task.algorithm, "");
            continue;
        }
        EXPECT_NE(task.tensor, "");
        EXPECT_EQ(plan.op(task.op).name, task.op);
        ++moved[task.kind];
    }
    EXPECT_EQ(last, plan.value());
    for (std::size_t d = 0; d < busy.size(); ++d) EXPECT_EQ(busy[d], plan.devices()[d].busy);
    std::map<std::string, std::int64_t> said;
    for (const CommunicationPlan& each : plan.communication(model))
        said[each.kind] += each.messages;
    EXPECT_EQ(said, moved);
    EXPECT_THROW(static_cast<void>(plan.tasks(Model(tests::mlp(64)))), InputError);
}

TEST_F(PlanTest, OfAGridHasOneMesh) {
    const std::optional<DeviceMesh> mesh = plan.mesh(model);
    ASSERT_TRUE(mesh.has_value());
    EXPECT_THAT(mesh->axes, ElementsAre("stage", "data", "context", "tensor"));
    EXPECT_THAT(mesh->shape, ElementsAre(1, 4, 1, 1));
    EXPECT_THAT(mesh->devices, ElementsAre(0, 1, 2, 3));
    std::vector<OpPlan> ops = plan.ops();
    const auto conv = std::ranges::find(ops, "Conv", &OpPlan::type);
    ASSERT_NE(conv, ops.end());
    std::ranges::reverse(conv->devices);
    const Plan reversed = price(model, machine, ops, {.mode = Mode::training});
    EXPECT_FALSE(reversed.mesh(model).has_value());
}

TEST_F(PlanTest, KnowsTheMemoryOfEveryDevice) {
    const auto devices = plan.devices();
    ASSERT_EQ(devices.size(), 4U);
    for (const DeviceUse& device : devices) {
        EXPECT_GT(device.memory, Bytes{0}) << device.name;
        EXPECT_LE(device.memory, device.capacity) << device.name;
        EXPECT_GT(device.busy, Time{0}) << device.name;
        EXPECT_LE(device.busy, plan.value()) << device.name;
    }
}

TEST_F(PlanTest, SavedAndLoadedItIsTheSame) {
    const TemporaryFolder folder;
    plan.save(folder.path() / "plan.json");
    const Plan loaded = Plan::load(folder.path() / "plan.json");
    EXPECT_EQ(loaded.json(), plan.json());
    EXPECT_THAT(loaded.verify(model), IsEmpty());
    EXPECT_THROW(static_cast<void>(Plan::load(folder.path() / "none.json")), InputError);
    EXPECT_THROW(static_cast<void>(Plan::parse("{}")), InputError);
    EXPECT_THROW(plan.save("/no/such/folder/plan.json"), UsageError);
}

TEST_F(PlanTest, VerifyFindsAnotherModelAndAChangedPrediction) {
    EXPECT_THAT(plan.verify(Model(tests::convnet(32))), Not(IsEmpty()));
    std::string json = plan.json();
    const std::string value = "\"value_ps\": " + std::to_string(plan.value().raw());
    ASSERT_THAT(json, HasSubstr(value));
    json.replace(json.find(value), value.size(), "\"value_ps\": 1");
    EXPECT_THAT(Plan::parse(json).verify(model), Not(IsEmpty()));
}

TEST_F(PlanTest, IsExportedForOtherTools) {
    EXPECT_THAT(plan.export_as("dot", model), testing::StartsWith("digraph"));
    EXPECT_THAT(plan.export_as("chrome-trace", model), HasSubstr("\"ph\""));
    EXPECT_THAT(plan.export_as("dtensor", model), HasSubstr("/left/Conv"));
    EXPECT_THROW(static_cast<void>(plan.export_as("pdf", model)), UsageError);
    EXPECT_THROW(static_cast<void>(plan.export_as("dot", Model(tests::mlp(8)))), InputError);
}

TEST_F(PlanTest, AnOpThatItDoesNotHaveIsWrongUsage) {
    EXPECT_THROW(static_cast<void>(plan.op("no-such-op")), UsageError);
}

}  // namespace
}  // namespace partita
