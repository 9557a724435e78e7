// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class PlanCommand : public ProgramTest {};

TEST_F(PlanCommand, WritesTheSameBytesWithAnyNumberOfThreads) {
    const std::vector<std::string> base = {
        "plan",          example("runnable/encoder-layer/model.onnx"),
        "--bind",        "batch=4",
        "--bind",        "sequence=16",
        "--machine",     "a100-t4",
        "--searcher",    "random",
        "--evaluations", "40",
        "--seed",        "3"};
    const auto with_threads = [&](const std::string& threads, const std::string& suffix) {
        auto arguments = base;
        for (const std::string& more : {std::string("--threads"), threads, std::string("-o"),
                                        suffix + ".json", std::string("--trace"), suffix + ".trace",
                                        std::string("--report"), suffix + ".html"}) {
            arguments.push_back(more);
        }
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
    };
    with_threads("1", "one");
    with_threads("2", "two");
    EXPECT_EQ(read("one.json"), read("two.json"));
    EXPECT_EQ(read("one.trace"), read("two.trace"));
    EXPECT_EQ(read("one.html"), read("two.html"));
}

TEST_F(PlanCommand, WritesNoPathOfThisHost) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    EXPECT_THAT(read("plan.json"), Not(HasSubstr(tests::repository().string())));
    EXPECT_EQ(written_plan()["model"]["file"], "model.onnx");
    EXPECT_EQ(written_plan()["model"]["bindings"], json({{"batch", 8}}));
}

TEST_F(PlanCommand, WritesAPlanThatVerifies) {
    for (const std::string mode : {"inference", "training"}) {
        ASSERT_EQ(run(plan_mlp({"--mode", mode})).code, 0);
        const Outcome result = run({"verify", "plan.json", example("runnable/mlp/model.onnx")});
        EXPECT_EQ(result.code, 0) << result.out;
    }
}

TEST_F(PlanCommand, KeepsThePolicyOfTraining) {
    const Outcome result =
        run(plan_mlp({"--mode", "training", "--optimizer", "adam", "--loss", "mse"}));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(written_plan()["mode"], "training");
    EXPECT_EQ(written_plan()["objective"], "step-time");
    EXPECT_EQ(written_plan()["policy"]["optimizer"], "adam");
    EXPECT_EQ(written_plan()["policy"]["loss"], "mse");
}

// Whole layers one after the other on eight GPUs: nothing but micro-batches keeps them busy.
TEST_F(PlanCommand, ChoosesMicroBatchesAndScheduleThatAreNotGiven) {
    const std::string model = example("models/gnmt.onnx");
    const auto policy_with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"plan", model, "--batch", "64", "--bind", "sequence=8", "--bind",
                                   "target_sequence=8", "--mode", "training", "--machine",
                                   "dgx-1-v100", "--dims", "O", "--evaluations", "40", "--json"});
        const Outcome result = run(more);
        EXPECT_EQ(result.code, 0) << result.err;
        const json summary = json::parse(result.out);
        const json policy = written_plan()["policy"];
        EXPECT_EQ(summary["micro_batches"], policy["micro_batches"]);
        EXPECT_EQ(summary["schedule"], policy["schedule"]);
        for (const std::vector<std::string>& dims : {std::vector<std::string>{}, {"--dims", "O"}}) {
            std::vector<std::string> verify{"verify", "plan.json", model};
            verify.insert(verify.end(), dims.begin(), dims.end());
            const Outcome verified = run(verify);
            EXPECT_EQ(verified.code, 0) << verified.out;
        }
        return policy;
    };
    EXPECT_GT(policy_with({})["micro_batches"], 1);
    const json both = policy_with({"--micro-batches", "1", "--schedule", "none"});
    EXPECT_EQ(both["micro_batches"], 1);
    EXPECT_EQ(both["schedule"], "none");
    EXPECT_EQ(policy_with({"--micro-batches", "2"})["micro_batches"], 2);
    const json ordered = policy_with({"--schedule", "gpipe"});
    EXPECT_EQ(ordered["schedule"], "gpipe");
    EXPECT_GT(ordered["micro_batches"], 1);
    EXPECT_EQ(run({"plan",
                   model,
                   "--batch",
                   "64",
                   "--bind",
                   "sequence=8",
                   "--bind",
                   "target_sequence=8",
                   "--mode",
                   "training",
                   "--machine",
                   "dgx-1-v100",
                   "--dims",
                   "O",
                   "--evaluations",
                   "5",
                   "--micro-batches",
                   "2",
                   "--import-plan",
                   "plan.json",
                   "-o",
                   "other.json"})
                  .code,
              2);
}

TEST_F(PlanCommand, LeavesTheBatchOfInferenceAlone) {
    ASSERT_EQ(run(plan_mlp({"--searcher", "auto", "--dims", "O", "--evaluations", "100"})).code, 0);
    EXPECT_EQ(written_plan()["policy"]["micro_batches"], 1);
    EXPECT_EQ(written_plan()["policy"]["schedule"], "none");
}

TEST_F(PlanCommand, HonoursFixedDevicesAndOpsThatStayTogether) {
    write("fix.json", R"({"ops": [{"match": "*", "devices": ["cpu1"]}], "together": ["*Gemm*"]})");
    const Outcome result = run(plan_mlp({"--fix", "fix.json"}));
    ASSERT_EQ(result.code, 0) << result.err;
    const json written = written_plan();
    for (const json& op : written["ops"]) {
        EXPECT_EQ(op["devices"], json::array({1})) << op["name"];
    }
}

TEST_F(PlanCommand, PlansAWorkloadForTheMachineItNames) {
    const Outcome result = run({"plan", example("workloads/throughput/layer_bert24_inference.json"),
                                "--searcher", "heft"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(written_plan()["objective"], "throughput");
    EXPECT_EQ(written_plan()["machine"]["devices"].size(), 7);  // 6 accelerators and a CPU
    const Outcome verified =
        run({"verify", "plan.json", example("workloads/throughput/layer_bert24_inference.json")});
    EXPECT_EQ(verified.code, 0) << verified.out;
}

// Plan, verify, simulate, compare, report and pictures; a trace needs a timeline, which there is
// not.
TEST_F(PlanCommand, PlansAWorkloadForItsLatency) {
    const std::string workload = example("workloads/latency/gnmt_inference.json");
    const Outcome result = run({"plan", workload, "--objective", "latency", "--report",
                                "report.html", "--json", "--evaluations", "2000"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json summary = json::parse(result.out);
    EXPECT_EQ(summary["objective"], "latency");
    EXPECT_GE(summary["value_ps"], summary["lower_bound_ps"]);
    EXPECT_LE(summary["value_ps"], 268'500'500'000);  // the published greedy
    EXPECT_THAT(read("report.html"), HasSubstr("gnmt_inference.json"));
    EXPECT_FALSE(written_plan()["order"].contains("commit"));
    const Outcome verified = run({"verify", "plan.json", workload});
    EXPECT_EQ(verified.code, 0) << verified.out;
    const Outcome simulated = run({"simulate", "plan.json", workload, "--json"});
    EXPECT_EQ(simulated.code, 0) << simulated.err;
    EXPECT_EQ(json::parse(simulated.out)["value_ps"], summary["value_ps"]);
    EXPECT_EQ(run({"export", "plan.json", workload, "--format", "dot", "-o", "plan.dot"}).code, 0);
    EXPECT_EQ(run({"compare", workload, "--objective", "latency"}).code, 0);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"plan", workload, "--objective", "latency", "--trace", "t"},
          {"simulate", "plan.json", workload, "--trace", "t"},
          {"export", "plan.json", workload, "--format", "chrome-trace", "-o", "t"}}) {
        const Outcome refused = run(command);
        EXPECT_EQ(refused.code, 2);
        EXPECT_THAT(refused.err, HasSubstr("no timeline"));
    }
    json other = written_plan();
    other["prediction"]["value_ps"] = summary["value_ps"].get<std::int64_t>() + 1;
    write("other.json", other.dump());
    const Outcome differs = run({"verify", "other.json", workload});
    EXPECT_NE(differs.code, 0);
    EXPECT_THAT(differs.out + differs.err, HasSubstr("value_ps"));
}

TEST_F(PlanCommand, StartsFromAnotherPlan) {
    ASSERT_EQ(run(plan_mlp({"--searcher", "heft", "-o", "first.json"})).code, 0);
    const Outcome result =
        run(plan_mlp({"--import-plan", "first.json", "--searcher", "hash", "--evaluations", "1"}));
    ASSERT_EQ(result.code, 0) << result.err;
    const json first = json::parse(read("first.json"));
    EXPECT_LE(written_plan()["prediction"]["value_ps"], first["prediction"]["value_ps"]);
}

// What a framework asks for by itself is named where the plan has it not.
TEST_F(PlanCommand, SaysHowAStartIsTrainedThatIsNotAskedFor) {
    ASSERT_EQ(run(plan_mlp({"--mode", "training", "-o", "first.json"})).code, 0);
    const Outcome result =
        run(plan_mlp({"--mode", "training", "--import-plan", "first.json", "--searcher", "hash",
                      "--evaluations", "1", "--clip-norm", "1"}));
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("--clip-norm none, which is not what is asked for"));
}

// The same placement, with backward tasks, on slower devices: more time; the plan's own machine and
// mode: the plan's value again.
TEST_F(PlanCommand, CanBeSimulatedInAnotherModeAndOnAnotherMachine) {
    const std::string model = example("models/resnet50.onnx");
    ASSERT_EQ(run({"plan", model, "--batch", "8", "--machine", "dgx-a100"}).code, 0);
    const auto simulate = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"simulate", "plan.json", model, "--json"});
        const Outcome result = run(more);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    };
    const json same = simulate({});
    EXPECT_EQ(same["value_ps"], written_plan()["prediction"]["value_ps"]);
    EXPECT_GT(simulate({"--machine", "k80-cluster"})["value_ps"], same["value_ps"]);
    const json training = simulate({"--mode", "training", "--optimizer", "adam"});
    EXPECT_GT(training["value_ps"], same["value_ps"]);
    EXPECT_EQ(training["objective"], "step-time");
}

// A cross-entropy adds an op, which a plan for another loss does not place, and other losses lack.
TEST_F(PlanCommand, OfACrossEntropyIsPricedWithoutItAndNotTheOtherWayRound) {
    const std::string model = example("runnable/mlp/model.onnx");
    const auto plan_with = [&](const char* loss) {
        return run({"plan", model, "--batch", "8", "--machine", "cpu:2", "--mode", "training",
                    "--loss", loss, "--searcher", "data-parallel"});
    };
    ASSERT_EQ(plan_with("cross-entropy").code, 0);
    for (const std::vector<std::string>& more : {std::vector<std::string>{"--mode", "inference"},
                                                 {"--loss", "mse", "--scheduler", "pct"}}) {
        std::vector<std::string> arguments = {"simulate", "plan.json", model};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << more[1] << result.err;
    }
    // The same model: written over.
    const Outcome again = plan_with("sum");
    ASSERT_EQ(again.code, 0) << again.err;
    const Outcome refused = run({"simulate", "plan.json", model, "--loss", "cross-entropy"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr("plan.json: was made for another loss, and places nothing that --loss "
                          "cross-entropy adds. Plan again with that."));
    EXPECT_EQ(plan_with("cross-entropy").code, 0);
}

// Of a model whose best plan no random placement is.
TEST_F(PlanCommand, SavesTheBestPlanWhenInterrupted) {
    const Outcome result =
        run_and_interrupt_at("searching", {"plan", example("models/resnet50.onnx"), "--batch", "8",
                                           "--machine", "a100-t4", "--searcher", "random",
                                           "--time-limit", "600", "--verbose", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["status"], "budget_exhausted");
    EXPECT_THAT(files(), ElementsAre("plan.json"));
    EXPECT_EQ(run({"verify", "plan.json", example("models/resnet50.onnx")}).code, 0);
}

// That nothing fits is not what an interrupt proves.
TEST_F(PlanCommand, WritesNothingWhenInterruptedBeforeAPlanFits) {
    const std::vector<std::string> arguments = {"plan",           example("models/resnet50.onnx"),
                                                "--batch",        "8",
                                                "--machine",      "a100-t4",
                                                "--searcher",     "mcmc",
                                                "--memory-limit", "16MiB",
                                                "--json",         "--verbose"};
    auto timed = arguments;
    timed.insert(timed.end(), {"--time-limit", "600"});
    const Outcome interrupted = run_and_interrupt_at("searching", timed);
    EXPECT_EQ(interrupted.code, 130) << interrupted.err;
    EXPECT_THAT(interrupted.err, HasSubstr("partita: interrupted: no plan found fits"));
    EXPECT_THAT(interrupted.err, Not(HasSubstr("infeasible")));
    auto counted = arguments;
    counted.insert(counted.end(), {"--evaluations", "1"});
    const Outcome spent = run(counted);
    EXPECT_EQ(spent.code, 4) << spent.err;
    EXPECT_THAT(spent.err, HasSubstr("partita: the budget is spent: no plan found fits"));
    for (const Outcome& outcome : {interrupted, spent}) {
        const json summary = json::parse(outcome.out);
        EXPECT_EQ(summary["status"], "none_found");
        EXPECT_EQ(summary["value_ps"], nullptr);
        EXPECT_THAT(std::string(summary["shortage"]), HasSubstr("bytes short in all"));
    }
    EXPECT_THAT(files(), IsEmpty());
}

TEST_F(PlanCommand, WritesOverNoPlanOfAnotherModelUnlessItIsNamed) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    EXPECT_EQ(run(plan_mlp({"--searcher", "hash"})).code, 0);
    EXPECT_EQ(written_plan()["search"]["searcher"], "hash");
    const std::string before = read("plan.json");
    const std::vector<std::string> other = {
        "plan",       example("runnable/encoder-layer/model.onnx"),
        "--bind",     "batch=4",
        "--bind",     "sequence=16",
        "--machine",  "cpu:2",
        "--searcher", "single-device"};
    const Outcome refused = run(other);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err,
                HasSubstr("plan.json holds a plan of another model, model.onnx. Say where"));
    EXPECT_EQ(read("plan.json"), before);
    auto named = other;
    named.insert(named.end(), {"-o", "plan.json"});
    EXPECT_EQ(run(named).code, 0);
    EXPECT_NE(read("plan.json"), before);
    write("plan.json", "my notes");
    EXPECT_THAT(run(other).err, HasSubstr("plan.json holds something that is no plan"));
    EXPECT_EQ(read("plan.json"), "my notes");
}

}  // namespace
}  // namespace partita::tests
