// SPDX-License-Identifier: Apache-2.0
//
// --json: the keys that the interface promises, and nothing else on stdout.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

std::vector<std::string> keys(const json& object) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) names.push_back(name);
    return names;
}

class Json : public ProgramTest {
protected:
    /// Fails when stdout holds anything but one JSON value.
    json run_json(std::vector<std::string> arguments, int code = 0) {
        arguments.emplace_back("--json");
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, code) << result.err;
        return json::parse(result.out);
    }
};

const std::vector<std::string> kPlanKeys = {
    "status",        "objective",         "value_ps",  "lower_bound_ps",
    "gap",           "searcher",          "scheduler", "seed",
    "micro_batches", "schedule",          "notes",     "evaluations",
    "elapsed_s",     "evaluations_per_s", "tasks",     "acceptance_rate",
    "baselines",     "devices",           "costs",     "unsupported_ops",
    "plan",          "numerical_bound",   "accuracy"};

TEST_F(Json, OfPlanHasThePromisedKeys) {
    const json summary = run_json(plan_mlp());
    EXPECT_THAT(keys(summary), IsSupersetOf(kPlanKeys));
    ASSERT_EQ(summary["baselines"].size(), 3);
    EXPECT_THAT(keys(summary["baselines"][1]),
                UnorderedElementsAre("name", "configuration", "value_ps"));
    EXPECT_EQ(summary["baselines"][1]["name"], "data-parallel");
    EXPECT_THAT(keys(summary["costs"]), IsSupersetOf({"measured", "interpolated", "analytic"}));
    ASSERT_EQ(summary["devices"].size(), 2);
    EXPECT_THAT(keys(summary["devices"][0]),
                IsSupersetOf({"name", "busy_ps", "memory_bytes", "memory_capacity_bytes"}));
}

TEST_F(Json, OfPlanAndSimulateTellsMemoryApart) {
    const json planned = run_json(plan_mlp({"--mode", "training", "--optimizer", "adam"}));
    const json simulated = run_json({"simulate", "plan.json", example("runnable/mlp/model.onnx")});
    EXPECT_EQ(planned["devices"], simulated["devices"]);
    for (const json& device : planned["devices"]) {
        EXPECT_THAT(keys(device["memory"]),
                    UnorderedElementsAre("weights", "gradients", "optimizer", "activations",
                                         "recomputation", "buffers", "reserved"));
        std::int64_t sum = 0;
        for (const auto& [kind, bytes] : device["memory"].items()) {
            if (kind != "reserved") sum += bytes.get<std::int64_t>();
        }
        EXPECT_EQ(device["memory_bytes"], sum);
    }
    const json& first = planned["devices"][0]["memory"];
    EXPECT_GT(first["weights"], 0);
    EXPECT_GT(first["optimizer"], first["weights"]);
}

TEST_F(Json, OfPlanAgreesWithThePlanFile) {
    const json summary = run_json(plan_mlp({"--searcher", "heft", "--seed", "7"}));
    const json plan = json::parse(read("plan.json"));
    EXPECT_EQ(summary["value_ps"], plan["prediction"]["value_ps"]);
    EXPECT_EQ(summary["lower_bound_ps"], plan["prediction"]["lower_bound_ps"]);
    EXPECT_EQ(summary["evaluations"], plan["search"]["evaluations"]);
    EXPECT_EQ(summary["tasks"], plan["order"]["commit"].size());
    EXPECT_EQ(summary["seed"], 7);
    EXPECT_EQ(summary["searcher"], "heft");
    EXPECT_EQ(summary["plan"], "plan.json");
    EXPECT_EQ(summary["devices"][0]["busy_ps"], plan["prediction"]["devices"][0]["busy_ps"]);
    // gap = value / bound - 1
    EXPECT_DOUBLE_EQ(
        summary["gap"].get<double>(),
        summary["value_ps"].get<double>() / summary["lower_bound_ps"].get<double>() - 1);
}

TEST_F(Json, OfAnInfeasiblePlanHasTheSameKeysAndNulls) {
    const json summary = run_json(plan_mlp({"--memory-limit", "10000"}), 4);
    EXPECT_THAT(keys(summary), IsSupersetOf(kPlanKeys));
    EXPECT_EQ(summary["status"], "infeasible");
    EXPECT_TRUE(summary["value_ps"].is_null());
    EXPECT_TRUE(summary["gap"].is_null());
    EXPECT_TRUE(summary["plan"].is_null());
}

TEST_F(Json, OfEveryOtherCommandIsOneValue) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string model = example("runnable/mlp/model.onnx");
    EXPECT_EQ(run_json({"verify", "plan.json", model})["legal"], true);
    EXPECT_EQ(run_json({"simulate", "plan.json", model})["fits"], true);
    EXPECT_EQ(run_json({"inspect", model, "--batch", "1"})["ops"], 6);
    EXPECT_EQ(run_json({"inspect", "plan.json"})["machine"], "cpu:2");
    EXPECT_EQ(run_json({"inspect", "cpu:2"})["devices"].size(), 2);
    EXPECT_EQ(run_json({"machine", "show", "cpu:3"})["devices"].size(), 3);
    EXPECT_GE(run_json({"machine", "list"}).size(), 8);
    EXPECT_EQ(run_json({"export", "plan.json", model, "--format", "dot", "-o", "a.dot"})["file"],
              "a.dot");
    EXPECT_EQ(run_json({"compare", model, "--batch", "8", "--machine", "cpu:2", "--searchers",
                        "hash,heft"})["searchers"]
                  .size(),
              2);
}

TEST_F(Json, OfAMachineIsAMachineFile) {
    write("mine.json", run({"machine", "show", "dgx-a100", "--json"}).out);
    const json shown = run_json({"machine", "show", "mine.json"});
    EXPECT_EQ(shown["devices"].size(), 8);
}

TEST_F(Json, LeavesStderrEmptyWithoutATerminal) {
    EXPECT_THAT(run(plan_mlp({"--json"})).err, IsEmpty());
    EXPECT_THAT(run(plan_mlp()).err, IsEmpty());
}

}  // namespace
}  // namespace partita::tests
