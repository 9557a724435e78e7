// SPDX-License-Identifier: Apache-2.0
//
// Executing plans: what comes out, and what is refused.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cost/machine/machine_file.h"
#include "importers/onnx/tensor_file.h"
#include "importers/onnx/tensor_files.h"
#include "tests/cli/program.h"
#include "tests/support/fusion_prices.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Execute : public ProgramTest {
protected:
    std::string mlp_ = example("runnable/mlp/model.onnx");

    void plan(const std::vector<std::string>& more) {
        std::vector<std::string> arguments{
            "plan", mlp_, "--machine", "cpu:2", "--searcher", "data-parallel", "-o", "plan.json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        ASSERT_EQ(run(arguments).code, 0);
    }

    Outcome execute(const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"execute", "plan.json", mlp_, "--iterations",
                                           "2",       "--warmup",  "1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    }
};

std::set<std::string> planned_collectives(const json& plan) {
    std::set<std::string> names;
    for (const json& each : plan["collectives"]) names.insert(each["task"]);
    return names;
}

/// Predicted and executed.
std::set<std::string> traced_collectives(const json& trace) {
    std::set<std::string> names;
    for (const json& event : trace["traceEvents"]) {
        if (event.value("ph", "") == "X" && event["cat"] == "collective") {
            names.insert(event["name"]);
        }
    }
    return names;
}

TEST_F(Execute, LooksAtTheProfileBeforeTheRun) {
    plan({"--batch", "8"});
    write("p.sqlite", "no database");
    const Outcome result = execute({"--update-profile", "p.sqlite", "--trace", "trace.json"});
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_THAT(result.err, HasSubstr("p.sqlite: is no profile database"));
    EXPECT_FALSE(std::filesystem::exists(folder() / "trace.json"));
}

TEST_F(Execute, OfTrainingEqualsOneDevice) {
    plan({"--batch", "8", "--mode", "training", "--optimizer", "adam", "--loss", "cross-entropy"});
    const Outcome result = execute({"--check", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json summary = json::parse(result.out);
    EXPECT_TRUE(summary["check"]["ok"].get<bool>());
    EXPECT_GT(summary["measured_ps"]["median"].get<std::int64_t>(), 0);
    EXPECT_GT(summary["predicted_ps"].get<std::int64_t>(), 0);
    EXPECT_GT(summary["memory"]["measured_bytes"].get<std::int64_t>(), 0);
    EXPECT_EQ(summary["devices"].size(), 2);
}

// Folded plans say strategy and scheduler, and list no tasks; they are of machines that are not here.
TEST_F(Execute, OfAFoldedPlanRunsTheTasksOfAllDevices) {
    plan({"--batch", "8", "--mode", "training"});
    json folded = written_plan();
    const std::size_t tasks = folded["order"]["commit"].size();
    folded["order"].erase("commit");
    folded["order"]["folded"] = true;
    folded["collectives"] = json::array();
    write("plan.json", folded.dump());
    const Outcome result = execute({"--check", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(json::parse(result.out)["check"]["ok"].get<bool>());
    EXPECT_EQ(json::parse(result.out)["tasks"], tasks);
    const Outcome verified = run({"verify", "plan.json", mlp_});
    EXPECT_EQ(verified.code, 6) << "its tasks are few";
    EXPECT_THAT(verified.out + verified.err, HasSubstr("order: the plan is folded"));
}

TEST_F(Execute, GivesTheOutputsOfTheDataSet) {
    const std::string data = example("runnable/mlp/test_data_set_0");
    plan({"--inputs", data});
    const Outcome result = execute({"--inputs", data});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("expected output"));
}

// What comes out goes in again, as what is expected.
TEST_F(Execute, ReadsAndWritesArrays) {
    const std::string data = example("runnable/mlp/test_data_set_0");
    auto inputs = importers::TensorFiles(data).read("input");
    ASSERT_EQ(inputs.size(), 1u);
    inputs[0].name = "x";
    const std::string arrays = (folder() / "arrays").string();
    (void)importers::write_tensor_files(arrays, inputs);
    ASSERT_TRUE(std::filesystem::exists(arrays + "/x.npy"));
    plan({"--inputs", arrays});
    const Outcome first = execute({"--inputs", arrays, "--outputs", arrays, "--json"});
    ASSERT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(json::parse(first.out)["outputs"], json({arrays + "/y.npy"}));
    EXPECT_EQ(json::parse(first.out)["check"], nullptr);
    const auto expected = importers::TensorFiles(data).read("output");
    const auto written = importers::read_tensor_file(arrays + "/y.npy");
    EXPECT_EQ(written.shape, expected[0].shape);
    const Outcome again = execute({"--inputs", arrays});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.out, HasSubstr("expected output 'y'"));
    EXPECT_EQ(execute({"--outputs", data + "/input_0.pb"}).code, 2);
}

TEST_F(Execute, OfAnotherDataSetIsRefused) {
    plan({"--batch", "8"});
    const Outcome result = execute({"--inputs", example("runnable/mlp/test_data_set_1")});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("the plan is for float32 [8 x 32]"));
}

TEST_F(Execute, WithoutWeightsNamesOne) {
    const std::string model = example("models/alexnet.onnx");
    ASSERT_EQ(run({"plan", model, "--batch", "1", "--machine", "cpu:2", "--searcher",
                   "single-device", "-o", "plan.json"})
                  .code,
              0);
    const Outcome result = run({"execute", "plan.json", model});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("'alexnet.weights' cannot be opened"));
}

TEST_F(Execute, OnDevicesThatAreNotThereIsRefused) {
    plan({"--batch", "8"});
    const Outcome result = execute({"--devices", "cuda:99"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("devices 'cuda:99': "));
    const Outcome twice = execute({"--devices", "cuda:0,0"});
    EXPECT_EQ(twice.code, 2);
    EXPECT_THAT(twice.err, HasSubstr("GPU 0 is named twice"));
    EXPECT_EQ(execute({"--devices", "cuda:1000"}).code, 2);
    EXPECT_EQ(execute({"--devices", "tpu:1"}).code, 2);
    EXPECT_EQ(execute({"--devices", "cpu:0"}).code, 2);
}

TEST_F(Execute, OfMoreThanTheHostHoldsIsRefusedBeforeItRuns) {
    plan({"--bind", "batch=68719476736", "--set", "device.memory=1000000GiB"});
    const Outcome result = execute({});
    EXPECT_EQ(result.code, 5);
    EXPECT_THAT(result.err, HasSubstr("of memory, this host has "));
}

TEST_F(Execute, OfAWorkloadIsRefused) {
    const std::string workload = example("workloads/throughput/layer_gnmt_training.json");
    ASSERT_EQ(run({"plan", workload, "--searcher", "single-device", "-o", "plan.json"}).code, 0);
    const Outcome result = run({"execute", "plan.json", workload});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("a workload has costs and no operators"));
}

TEST_F(Execute, TracesWhatWasMeasuredBesideWhatWasPredicted) {
    plan({"--batch", "8"});
    ASSERT_EQ(execute({"--trace", "trace.json"}).code, 0);
    std::map<int, std::set<std::string>> names;
    std::map<int, double> end;  // of the last slice on each measured row
    const json trace = json::parse(read("trace.json"));
    for (const json& event : trace["traceEvents"]) {
        if (event["ph"] != "X") continue;
        names[event["pid"].get<int>()].insert(event["name"].get<std::string>());
        if (event["pid"] == 1) continue;
        double& last = end[event["tid"].get<int>()];
        EXPECT_GE(event["ts"].get<double>(), last - 1e-6);  // rows do not overlap
        last = event["ts"].get<double>() + event["dur"].get<double>();
    }
    EXPECT_EQ(names[1], names[2]);
    EXPECT_EQ(end.size(), 2);
}

TEST_F(Execute, UpdatesAProfileThatPlansByIt) {
    plan({"--batch", "8", "--mode", "training"});
    const Outcome result = execute({"--update-profile", "p.sqlite"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("wrote p.sqlite: "));
    const Outcome again = execute({"--profile", "p.sqlite", "--json"});
    ASSERT_EQ(again.code, 0) << again.err;
    const Outcome simulated =
        run({"simulate", "plan.json", mlp_, "--profile", "p.sqlite", "--json"});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const json costs = json::parse(simulated.out)["costs"];
    EXPECT_GT(costs["measured"].get<int>(), 0);
    EXPECT_EQ(costs["analytic"].get<int>(), 0);
    EXPECT_EQ(json::parse(again.out)["predicted_ps"], json::parse(simulated.out)["value_ps"]);
}

TEST_F(Execute, ByPricesThatFuseOtherCollectivesRunsThePlansTasks) {
    const cost::Machine machine = cost::load_machine("cpu:2");
    support::write_fusion_profile(folder() / "dear.sqlite", support::Fusions::dear, machine);
    support::write_fusion_profile(folder() / "cheap.sqlite", support::Fusions::cheap, machine);
    for (const auto& [planned, given] :
         {std::pair{"dear.sqlite", "cheap.sqlite"}, std::pair{"cheap.sqlite", "dear.sqlite"}}) {
        plan({"--batch", "8", "--mode", "training", "--profile", planned});
        const json plan = json::parse(read("plan.json"));
        const std::string collectives = plan["collectives"].dump();
        const bool joined = collectives.find(" +1 ") != std::string::npos;
        EXPECT_EQ(joined, std::string(planned) == "cheap.sqlite") << collectives;
        for (const std::vector<std::string>& prices :
             {std::vector<std::string>{}, {"--profile", planned}, {"--profile", given}}) {
            std::vector<std::string> more = {"--json",     "--check",          "--trace",
                                             "trace.json", "--update-profile", "p.sqlite"};
            more.insert(more.end(), prices.begin(), prices.end());
            const Outcome result = execute(more);
            ASSERT_EQ(result.code, 0) << result.err;
            const json summary = json::parse(result.out);
            EXPECT_EQ(summary["tasks"], plan["order"]["commit"].size());
            EXPECT_TRUE(summary["check"]["ok"].get<bool>());
            EXPECT_EQ(traced_collectives(json::parse(read("trace.json"))),
                      planned_collectives(plan));
        }
        const Outcome profiled = run({"profile", mlp_, "--plan", "plan.json", "--db", "p.sqlite",
                                      "--iterations", "1", "--repeat"});
        EXPECT_EQ(profiled.code, 0) << profiled.err;
    }
}

// Whatever was measured in between, a plan can be executed, and what it takes is written down.
TEST_F(Execute, PlansOfAllRoundsRunByThePricesOfAllRounds) {
    constexpr int kRounds = 3;
    std::vector<std::string> prices;  // of the first round: none
    for (int round = 0; round < kRounds; ++round) {
        std::vector<std::string> planning = {"plan",
                                             mlp_,
                                             "--batch",
                                             "8",
                                             "--machine",
                                             "cpu:2",
                                             "--mode",
                                             "training",
                                             "--searcher",
                                             "data-parallel,mcmc",
                                             "--evaluations",
                                             "200",
                                             "-o",
                                             "plan" + std::to_string(round) + ".json"};
        planning.insert(planning.end(), prices.begin(), prices.end());
        const Outcome planned = run(planning);
        ASSERT_EQ(planned.code, 0) << planned.err;
        for (int made = 0; made <= round; ++made) {
            const std::string file = "plan" + std::to_string(made) + ".json";
            std::vector<std::string> executing = {"execute", file,       mlp_, "--iterations",
                                                  "2",       "--warmup", "1",  "--update-profile",
                                                  "p.sqlite"};
            executing.insert(executing.end(), prices.begin(), prices.end());
            const Outcome result = run(executing);
            EXPECT_EQ(result.code, 0) << file << " in round " << round << ": " << result.err;
        }
        prices = {"--profile", "p.sqlite"};
    }
}

TEST_F(Execute, ProfilesWhatAModelNeedsOnce) {
    const std::vector<std::string> command = {
        "profile", mlp_, "--batch", "8", "--machine", "cpu:2", "--iterations", "1", "--json"};
    const Outcome first = run(command);
    ASSERT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(files(), std::vector<std::string>{"profile.sqlite"});
    const json measured = json::parse(first.out);
    EXPECT_GT(measured["runs"].get<int>(), 2);
    EXPECT_GT(measured["works"].get<int>(), 10);
    EXPECT_GT(measured["transfers"].get<int>(), 10);
    const Outcome second = run(command);
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_EQ(json::parse(second.out)["runs"].get<int>(), 0);
}

TEST_F(Execute, ProfilesWhatAPlanNeeds) {
    plan({"--batch", "8"});
    const Outcome result =
        run({"profile", mlp_, "--plan", "plan.json", "--db", "p.sqlite", "--iterations", "1"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 run in "));
    EXPECT_THAT(result.out, HasSubstr("forward Gemm"));
    const Outcome wrong = run({"profile", mlp_, "--plan", "no.json"});
    EXPECT_EQ(wrong.code, 3) << wrong.err;
}

TEST_F(Execute, ProfilesOnOtherThreadsOnlyWithANote) {
    const std::vector<std::string> command = {"profile",   mlp_,    "--batch",      "8",
                                              "--machine", "cpu:1", "--iterations", "1"};
    EXPECT_EQ(run(command).err, "");
    std::vector<std::string> shared = command;
    shared.insert(shared.end(), {"--device", "cpu:1"});  // all cores of the host
    const Outcome result = run(shared);
    EXPECT_EQ(result.code, 0) << result.err;
    if (std::thread::hardware_concurrency() > 1) {
        EXPECT_THAT(result.err, HasSubstr("plans for 'cpu:1' will not use it"));
    }
}

TEST_F(Execute, ProfilesNoWorkload) {
    const Outcome result =
        run({"profile", example("workloads/throughput/layer_gnmt_training.json")});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("Profile an ONNX model"));
    EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace partita::tests
