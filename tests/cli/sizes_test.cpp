// SPDX-License-Identifier: Apache-2.0
//
// `plan` for several machines and batches: a table, and the plan of the best size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Sizes : public ProgramTest {
protected:
    /// Of the smallest example, by a searcher that is quick and always the same.
    Outcome plan(const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"plan",       example("runnable/mlp/model.onnx"),
                                              "--mode",     "training",
                                              "--searcher", "data-parallel"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    }
    json table(std::vector<std::string> more) {
        more.emplace_back("--json");
        const Outcome result = plan(more);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    }
    static std::vector<std::string> machines(const json& table) {
        std::vector<std::string> names;
        for (const json& row : table["sizes"]) {
            names.push_back(row["machine"].get<std::string>() + "/" + row["batch"].dump());
        }
        return names;
    }
    static std::string best(const json& table) {
        for (const json& row : table["sizes"]) {
            if (row["best"]) {
                return row["machine"].get<std::string>() + "/" + row["batch"].dump();
            }
        }
        return "";
    }
};

TEST_F(Sizes, AreAllMachinesWithAllBatches) {
    const json found = table({"--machine", "dgx-a100:1x1,1x2,cpu:2", "--batch", "64,128"});
    EXPECT_THAT(machines(found),
                ElementsAre("dgx-a100:1x1/64", "dgx-a100:1x1/128", "dgx-a100:1x2/64",
                            "dgx-a100:1x2/128", "cpu:2/64", "cpu:2/128"));
    for (const json& row : found["sizes"]) {
        EXPECT_NE(row["value_ps"], nullptr);
        EXPECT_NEAR(row["throughput"]["samples_per_s"].get<double>(),
                    row["batch"].get<double>() * 1e12 / row["value_ps"].get<double>(), 1e-3);
        EXPECT_EQ(row["cost_per_million"], nullptr);
    }
}

// What is written is what the table says, and the same as if that size alone had been asked for.
TEST_F(Sizes, TheBestOneIsWritten) {
    const json found = table({"--machine", "cpu:1,2", "--batch", "256,512", "-o", "best.json"});
    const json written = json::parse(read("best.json"));
    double most = 0;
    for (const json& row : found["sizes"]) {
        most = std::max(most, row["throughput"]["samples_per_s"].get<double>());
    }
    for (const json& row : found["sizes"]) {
        if (!row["best"]) continue;
        EXPECT_EQ(row["throughput"]["samples_per_s"], most);
        EXPECT_EQ(row["value_ps"], found["value_ps"]);
        EXPECT_EQ(written["model"]["bindings"]["batch"], row["batch"]);
        ASSERT_EQ(
            plan({"--machine", row["machine"], "--batch", row["batch"].dump(), "-o", "alone.json"})
                .code,
            0);
    }
    EXPECT_EQ(read("best.json"), read("alone.json"));
    EXPECT_EQ(run({"verify", "best.json", example("runnable/mlp/model.onnx")}).code, 0);
}

TEST_F(Sizes, DevicesAtMostDoublesThePreset) {
    EXPECT_THAT(machines(table({"--machine", "cpu", "--devices-at-most", "5", "--batch", "64"})),
                ElementsAre("cpu:1/64", "cpu:2/64", "cpu:4/64"));
    EXPECT_THAT(
        machines(table({"--machine", "dgx-a100", "--devices-at-most", "16", "--batch", "64"})),
        ElementsAre("dgx-a100:1/64", "dgx-a100:2/64"));
    EXPECT_THAT(
        machines(table({"--machine", "cpu:1,2,8", "--devices-at-most", "2", "--batch", "64"})),
        ElementsAre("cpu:1/64", "cpu:2/64"));
}

TEST_F(Sizes, APresetOfOneSizeIsThat) {
    EXPECT_THAT(
        machines(table({"--machine", "a100-t4", "--devices-at-most", "8", "--batch", "64"})),
        ElementsAre("a100-t4/64"));
    EXPECT_EQ(plan({"--machine", "a100-t4", "--devices-at-most", "7", "--batch", "64"}).code, 2);
    EXPECT_EQ(plan({"--machine", "a100-t5", "--devices-at-most", "8", "--batch", "64"}).code, 2);
}

TEST_F(Sizes, TheFewestDevicesThatReachATimeAreBest) {
    const json all = table({"--machine", "cpu:1,2,4", "--batch", "4096"});
    const std::int64_t of_two = all["sizes"][1]["value_ps"];
    ASSERT_LT(all["sizes"][2]["value_ps"].get<std::int64_t>(), of_two);
    ASSERT_GT(all["sizes"][0]["value_ps"].get<std::int64_t>(), of_two);
    EXPECT_EQ(best(all), "cpu:4/4096");
    EXPECT_EQ(best(table({"--machine", "cpu:1,2,4", "--batch", "4096", "--step-time-at-most",
                          std::to_string(of_two) + "ps"})),
              "cpu:2/4096");
    // Nobody reaches it: the quickest one.
    EXPECT_EQ(
        best(table({"--machine", "cpu:1,2,4", "--batch", "4096", "--step-time-at-most", "1ps"})),
        "cpu:4/4096");
}

TEST_F(Sizes, CostIsThatOfAllDevicesForAsLongAsItTakes) {
    const json found =
        table({"--machine", "cpu:1,2", "--batch", "64", "--set", "device.price_per_hour=1.5"});
    double devices = 0;
    for (const json& row : found["sizes"]) {
        const double per_second = ++devices * 1.5 / 3600;
        const double rate = row["throughput"]["samples_per_s"];
        EXPECT_NEAR(row["cost_per_million"].get<double>(), per_second / rate * 1e6, 1e-9);
    }
}

TEST_F(Sizes, TheFrontHasWhatNoOtherBeats) {
    const json found = table({"--machine", "cpu:1,2,4", "--batch", "1,4096"});
    const auto rate = [](const json& row) {
        return row["throughput"]["samples_per_s"].get<double>();
    };
    for (const json& row : found["sizes"]) {
        bool beaten = false;
        for (const json& other : found["sizes"]) {
            const bool is_other = other["devices"] != row["devices"] || rate(other) != rate(row);
            beaten = beaten ||
                     (is_other && other["devices"] <= row["devices"] && rate(other) >= rate(row));
        }
        EXPECT_EQ(row["on_front"], !beaten);
    }
}

TEST_F(Sizes, ATableIsShownAboveTheBestPlan) {
    const Outcome result = plan({"--machine", "cpu:1,2", "--batch", "4096"});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("samples/s"));
    EXPECT_THAT(result.out, HasSubstr("fewest that fit"));
    EXPECT_LT(result.out.find("fewest that fit"), result.out.find("\nmodel "));
    EXPECT_THAT(result.out, Not(HasSubstr("cost of 1 M")));
}

// 1 MB is too little for any of them.
TEST_F(Sizes, WithoutAnyPlanNothingIsWritten) {
    const Outcome result =
        plan({"--machine", "cpu:1,2", "--batch", "64", "--memory-limit", "1000"});
    EXPECT_EQ(result.code, 4);
    EXPECT_THAT(result.out, HasSubstr("none of these"));
    EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Sizes, FormsThatAMachineCannotHaveAreRows) {
    const Outcome result =
        run({"plan", example("runnable/mlp/model.onnx"), "--mode", "training", "--batch", "64",
             "--machine", "cpu:1,2", "--strategy", "dp=2", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    const json found = json::parse(result.out);
    EXPECT_EQ(found["sizes"][0]["status"], "refused");
    EXPECT_TRUE(found["sizes"][1]["best"]);
    EXPECT_THAT(result.err, HasSubstr("cpu:1 with batch 64: --strategy dp=2"));
}

TEST_F(Sizes, WrongOnesAreRefusedBeforeAnythingIsSearched) {
    const auto refused = [&](const std::string& message, std::vector<std::string> more) {
        std::vector<std::string> arguments = {"plan", example("runnable/mlp/model.onnx")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        expect_refused(message, arguments);
    };
    refused("machine 'none': unknown preset", {"--machine", "cpu:1,none", "--batch", "4"});
    refused("--machine: expected a machine behind each comma",
            {"--machine", "cpu:1,", "--batch", "4"});
    refused("--batch : expected", {"--machine", "cpu:1", "--batch", "4,"});
    refused("--devices-at-most: of which machine?", {"--devices-at-most", "4", "--batch", "4"});
    refused("--devices-at-most 1: --machine dgx-a100 has more in every size",
            {"--machine", "dgx-a100", "--devices-at-most", "1", "--batch", "4"});
    refused("--step-time-at-most 1: expected a time > 0 such as 1s",
            {"--machine", "cpu:1", "--step-time-at-most", "1", "--batch", "4"});
    refused("--import-plan: is of one size",
            {"--machine", "cpu:1,2", "--batch", "4", "--import-plan", "plan.json"});
}

}  // namespace
}  // namespace partita::tests
