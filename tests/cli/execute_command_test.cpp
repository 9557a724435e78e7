// SPDX-License-Identifier: Apache-2.0
//
// Executing plans: what comes out, and what is refused.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

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

TEST_F(Execute, GivesTheOutputsOfTheDataSet) {
    const std::string data = example("runnable/mlp/test_data_set_0");
    plan({"--inputs", data});
    const Outcome result = execute({"--inputs", data});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("expected output"));
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
    // Other prices may move data in other ways: then the plan's order is not one of these tasks.
    const Outcome simulated = run(
        {"simulate", "plan.json", mlp_, "--profile", "p.sqlite", "--json", "--scheduler", "pct"});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const json costs = json::parse(simulated.out)["costs"];
    EXPECT_GT(costs["measured"].get<int>(), costs["analytic"].get<int>());
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
