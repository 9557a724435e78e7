// SPDX-License-Identifier: Apache-2.0
//
// `explain`: why a plan takes as long as it does, and what one op could be instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Explain : public ProgramTest {
protected:
    Explain() {
        const Outcome result =
            run({"plan", model_, "--bind", "batch=4", "--bind", "sequence=64", "--mode", "training",
                 "--machine", "dgx-a100:2", "--strategy", "dp=2,tp=2,pp=2,vpp=1", "--micro-batches",
                 "2", "--schedule", "1f1b", "--host-time", "3us"});
        EXPECT_EQ(result.code, 0) << result.err;
    }
    Outcome explain(const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"explain", "plan.json", model_};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    }
    json explained(std::vector<std::string> more) {
        more.emplace_back("--json");
        const Outcome result = explain(more);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    }
    std::int64_t simulated(const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"simulate", "plan.json",   model_,
                                           "--json",   "--scheduler", "pct"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out)["value_ps"];
    }

    std::string model_ = example("runnable/encoder-layer/model.onnx");
};

TEST_F(Explain, WhatAPlanWaitsForAddsUp) {
    const json plan = explained({});
    EXPECT_EQ(plan["value_ps"], written_plan()["prediction"]["value_ps"]);
    std::int64_t path = 0;
    for (const json& part : plan["critical_path"]) path += part["time_ps"].get<std::int64_t>();
    EXPECT_EQ(path, plan["value_ps"]);
    EXPECT_EQ(plan["strategy"]["stages"], 2);
    EXPECT_GT(plan["longest_ops"].size(), 0U);
}

// Each is what `simulate` says of the same change.
TEST_F(Explain, WhatWouldHelpIsSimulated) {
    const json plan = explained({});
    int known = 0;
    for (const json& help : plan["would_help"]) {
        const std::string what = help["what"];
        const std::int64_t value = help["value_ps"];
        const std::vector<std::pair<std::string, std::vector<std::string>>> same = {
            {"bandwidth between nodes x 2", {"--scale", "network=2"}},
            {"bandwidth inside nodes x 2", {"--scale", "node=2"}},
            {"FLOP/s x 2", {"--scale", "compute=2"}},
            {"memory bandwidth x 2", {"--scale", "device.memory_bandwidth=2"}},
            {"kernels launched in no time", {"--host-time", "none"}},
            {"micro-batches x 2", {"--micro-batches", "4"}}};
        for (const auto& [name, options] : same) {
            if (name != what) continue;
            ++known;
            EXPECT_EQ(value, simulated(options)) << what;
        }
    }
    EXPECT_EQ(known, static_cast<int>(plan["would_help"].size()));
    EXPECT_GE(known, 4);
}

// Batches overlap, so a plan for throughput is worth less than what one batch takes.
TEST_F(Explain, WhatWouldHelpThroughputIsRelativeToIt) {
    const Outcome result =
        run({"plan", model_, "--bind", "batch=4", "--bind", "sequence=64", "--machine", "dgx-a100",
             "--objective", "throughput", "--strategy", "pp=4"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json plan = explained({});
    std::int64_t path = 0;
    for (const json& part : plan["critical_path"]) path += part["time_ps"].get<std::int64_t>();
    ASSERT_GT(path, 2 * plan["value_ps"].get<std::int64_t>());
    ASSERT_GT(plan["would_help"].size(), 2U);
    for (const json& help : plan["would_help"]) {
        if (help["what"] == "micro-batches x 2") continue;
        EXPECT_GE(help["ratio"], 0.499) << help;  // twice of one figure
        EXPECT_LE(help["ratio"], 1.0) << help;
    }
}

TEST_F(Explain, AnOpHasAlternatives) {
    const json op = explained({"node_MatMul_63"});
    EXPECT_EQ(op["op"], "node_MatMul_63");
    EXPECT_EQ(op["value_ps"], simulated({}));
    EXPECT_GT(op["tried"], 10);
    std::int64_t before = 0;
    for (const json& each : op["alternatives"]) {
        if (!each["fits"] || !each["keeps_schedule"]) continue;
        EXPECT_GE(each["value_ps"], before);
        before = each["value_ps"];
        EXPECT_GT(each["changed_ops"], 0);
    }
    EXPECT_GT(before, 0);
}

TEST_F(Explain, FindsAnOpByAPartOfItsName) {
    EXPECT_EQ(explained({"MatMul_63"}), explained({"node_MatMul_63"}));
    // Of a parameter: who computes with it.
    EXPECT_EQ(explained({"up.bias"})["op"], "node_linear_2");
    const Outcome unclear = explain({"MatMul_6"});
    EXPECT_EQ(unclear.code, 2);
    EXPECT_THAT(unclear.err, HasSubstr("MatMul_6: no op of that name. Is it one of node_MatMul_6, "
                                       "node_MatMul_61, node_MatMul_63, node_MatMul_65?"));
    const Outcome unknown = explain({"nothing-like-it"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("`partita inspect MODEL --ops` lists all."));
}

TEST_F(Explain, RefusesPlansWithoutATimeline) {
    const std::string workload = example("workloads/throughput/layer_gnmt_training.json");
    ASSERT_EQ(run({"plan", workload, "-o", "given.json"}).code, 0);
    const Outcome result = run({"explain", "given.json", workload});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("loads and no timeline"));
}

}  // namespace
}  // namespace partita::tests
