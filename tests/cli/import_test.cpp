// SPDX-License-Identifier: Apache-2.0
//
// profile --import and --export-works: what others measured.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using JsonValue = nlohmann::json;

class Import : public ProgramTest {
protected:
    const std::string model_ = example("runnable/mlp/model.onnx");
    const std::string trace_ = example("traces/mlp.json");

    std::vector<std::string> profile(const std::vector<std::string>& more,
                                     const std::string& batch = "1024") {
        std::vector<std::string> arguments = {"profile", model_,     "--batch",   batch,
                                              "--mode",  "training", "--machine", "cpu:2"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    JsonValue imported(const std::vector<std::string>& more) {
        std::vector<std::string> arguments = profile(more);
        arguments.emplace_back("--json");
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return JsonValue::parse(result.out);
    }
    JsonValue costs_of_plan() {
        const Outcome planned =
            run({"plan", model_, "--batch", "1024", "--mode", "training", "--machine", "cpu:2",
                 "--profile", "profile.sqlite", "--evaluations", "20", "--json"});
        EXPECT_EQ(planned.code, 0) << planned.err;
        return JsonValue::parse(planned.out)["costs"];
    }
};

TEST_F(Import, OfATraceOfTorchPricesPlans) {
    const JsonValue summary = imported({"--import", trace_});
    EXPECT_EQ(summary["found"], 12);
    EXPECT_EQ(summary["works"], 19);
    EXPECT_GT(summary["predicted_found_ms"], 0.9 * summary["predicted_ms"].get<double>());
    EXPECT_GT(summary["measured_found_ms"], 0);
    for (const JsonValue& each : summary["not_measured"]) {
        EXPECT_EQ(each["why"], "no operator known") << each;
    }
    EXPECT_THAT(files(), ElementsAre("profile.sqlite"));
    const JsonValue costs = costs_of_plan();
    EXPECT_GT(costs["measured"].get<int>() + costs["interpolated"].get<int>(), 0) << costs;
}

// What is exported, filled in and imported is found whole: each work costs what was written.
TEST_F(Import, OfFilledInWorksPricesAllOfThem) {
    const Outcome exported = run(profile({"--export-works", "works.csv"}));
    ASSERT_EQ(exported.code, 0) << exported.err;
    EXPECT_THAT(files(), ElementsAre("works.csv"));
    const Outcome again = run(profile({"--export-works", "works.csv", "--json"}));
    EXPECT_EQ(JsonValue::parse(again.out)["device"], "x86-64 core");
    std::string table = read("works.csv");
    int lines = -1;
    for (std::size_t at = 0; (at = table.find(",\n", at)) != std::string::npos; at += 2) {
        table.insert(at + 1, "125.5");
        ++lines;
    }
    EXPECT_GE(lines, 19);
    write("works.csv", table);
    const JsonValue summary = imported({"--import", "works.csv"});
    EXPECT_EQ(summary["found"], summary["works"]);
    EXPECT_EQ(summary["rows"], lines + 1);
    EXPECT_TRUE(summary["not_measured"].empty());
    const double tasks = summary["measured_found_ms"].get<double>() / 0.1255;
    EXPECT_NEAR(tasks, std::round(tasks), 1e-6);
}

TEST_F(Import, LeavesWhatHasNoTimeAlone) {
    ASSERT_EQ(run(profile({"--export-works", "works.csv"})).code, 0);
    std::string table = read("works.csv");
    table.insert(table.find(",\n") + 1, "3");
    table += "x86-64 core,forward Nothing.1 () -> (),0,0,1,1,5\n";
    write("works.csv", table);
    const Outcome result = run(profile({"--import", "works.csv"}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 work written for x86-64 core"));
    EXPECT_THAT(result.err, HasSubstr("1 time of works that plans of this model do not have"));
}

TEST_F(Import, RefusesWhatItCannotUseAndWritesNothing) {
    const Outcome other = run(profile({"--import", trace_}, "512"));
    EXPECT_EQ(other.code, 6) << other.err;
    EXPECT_THAT(other.err, HasSubstr("--export-works` writes what is looked for"));
    write("kernels.csv", "Name,Total Time (ns)\ngemm,5\n");
    const Outcome kernels = run(profile({"--import", "kernels.csv"}));
    EXPECT_EQ(kernels.code, 3) << kernels.err;
    EXPECT_THAT(kernels.err, HasSubstr("kernels.csv: neither operators"));
    write("works.csv", "work,time_us\n\"forward x\",fast\n");
    const Outcome slow = run(profile({"--import", "works.csv"}));
    EXPECT_EQ(slow.code, 3) << slow.err;
    EXPECT_THAT(slow.err, HasSubstr("works.csv: line 2: time_us: expected a number"));
    EXPECT_EQ(run(profile({"--import", "none.json"})).code, 3);
    EXPECT_THAT(files(), ElementsAre("kernels.csv", "works.csv"));
}

TEST_F(Import, RefusesOptionsOfMeasuringHere) {
    for (const char* const option : {"--iterations", "--rounds", "--device"}) {
        const Outcome result = run(profile({"--import", trace_, option, "3"}));
        EXPECT_EQ(result.code, 2) << option;
        EXPECT_THAT(result.err, HasSubstr(option));
    }
    EXPECT_EQ(run(profile({"--export-works", "works.csv", "--repeat"})).code, 2);
    EXPECT_TRUE(files().empty());
}

TEST_F(Import, RefusesMachinesOfSeveralKinds) {
    const Outcome result = run({"profile", model_, "--batch", "1024", "--machine",
                                example("machines/lab.json"), "--import", trace_});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("times are of one of them"));
}

}  // namespace
}  // namespace partita::tests
