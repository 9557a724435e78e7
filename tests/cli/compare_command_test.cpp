// SPDX-License-Identifier: Apache-2.0
//
// Plans side by side: of other machines, and of configurations of one's own.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Compare : public ProgramTest {};

TEST_F(Compare, AsksWhatOtherFiguresWouldGiveAsSimulateDoes) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string mlp = example("runnable/mlp/model.onnx");
    const auto simulated = [&](const std::vector<std::string>& more) -> std::int64_t {
        std::vector<std::string> arguments{"simulate", "plan.json", mlp, "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out)["value_ps"];
    };
    const auto compared = [&](const std::vector<std::string>& more) -> std::int64_t {
        std::vector<std::string> arguments{"compare",   mlp,     "--batch",     "8",
                                           "--machine", "cpu:2", "--searchers", "single-device",
                                           "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out)["searchers"][0]["value_ps"];
    };
    const std::vector<std::string> slower{"--scale", "compute=0.01"};
    EXPECT_GT(simulated(slower), simulated({}));
    EXPECT_GT(compared(slower), compared({}));
    const std::vector<std::string> same{"--scale", "compute=1"};
    EXPECT_EQ(simulated(same), simulated({}));
    EXPECT_EQ(compared(same), compared({}));
    const std::vector<std::string> late{"--set", "device.launch_interval=1ms"};
    EXPECT_GT(simulated(late), simulated({}));
    EXPECT_GT(compared(late), compared({}));
}

// One table of configurations and searchers; one that the model cannot have is a row too.
TEST_F(Compare, ComparesConfigurationsOfOnesOwn) {
    const std::vector<std::string> base = {
        "compare",   example("runnable/encoder-layer/model.onnx"),
        "--bind",    "batch=4",
        "--bind",    "sequence=16",
        "--machine", "dgx-a100",
        "--mode",    "training"};
    const auto compare = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = base;
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    };
    const Outcome result =
        compare({"--strategies", "tp=4,pp=2", "tp=8", "data-parallel", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("8 devices cannot share op 'node_matmul_1' (Attention)"));
    const json rows = json::parse(result.out)["searchers"];
    ASSERT_EQ(rows.size(), 3);
    EXPECT_THAT(rows[0]["configuration"].get<std::string>(), HasSubstr("dp=1,tp=4,pp=2"));
    EXPECT_GT(rows[0]["memory_bytes"].get<std::int64_t>(), 0);
    EXPECT_EQ(rows[1]["status"], "refused");
    EXPECT_TRUE(rows[1]["value_ps"].is_null());
    EXPECT_EQ(rows[2]["searcher"], "data-parallel");
    EXPECT_EQ(compare({"--strategies", "tp=8"}).code, 2);
    EXPECT_EQ(compare({"--strategies", "tp=0", "tp=2"}).code, 2);
    EXPECT_THAT(compare({"--strategies", "hedt"}).err, HasSubstr("unknown searcher 'hedt'"));
    EXPECT_EQ(compare({"--strategies", "tp=2", "--searchers", "heft"}).code, 2);
    EXPECT_THAT(compare({"--strategies", "tp=2", "dp=4"}).out, HasSubstr("dp=4,tp=1,pp=2"));
}

// What one keeps sharded is no business of the next.
TEST_F(Compare, ConfigurationsAreTheSameInAnyOrder) {
    const auto rows = [&](const std::string& first, const std::string& second) {
        const Outcome result =
            run({"compare", example("runnable/encoder-layer/model.onnx"), "--bind", "batch=4",
                 "--bind", "sequence=16", "--machine", "dgx-a100", "--mode", "training",
                 "--strategies", first, second, "--json"});
        EXPECT_EQ(result.code, 0) << result.err;
        const json found = json::parse(result.out)["searchers"];
        std::map<std::string, std::pair<json, json>> by_name;
        for (const json& row : found) {
            by_name[row["searcher"]] = {row["value_ps"], row["memory_bytes"]};
        }
        EXPECT_EQ(by_name.size(), 2);
        return by_name;
    };
    const std::string sharded = "dp=2,tp=4,pp=1,sp";
    const std::string repeated = "dp=2,tp=4,pp=1,sp=0";
    EXPECT_EQ(rows(sharded, repeated), rows(repeated, sharded));
}

/// Two plans of the encoder layer on eight GPUs, a.json and b.json.
class ComparePlans : public ProgramTest {
protected:
    ComparePlans() {
        plan("a.json", "dp=4,tp=1,pp=1");
        plan("b.json", "dp=2,tp=2,pp=1");
    }
    void plan(const std::string& file, const std::string& strategy) {
        const Outcome result = run({"plan", model_, "--bind", "batch=4", "--bind", "sequence=16",
                                    "--machine", "dgx-a100", "--mode", "training", "--strategy",
                                    strategy, "--micro-batches", "1", "-o", file});
        ASSERT_EQ(result.code, 0) << result.err;
    }
    json compare(const std::string& a, const std::string& b,
                 const std::vector<std::string>& more = {}) {
        std::vector<std::string> arguments{"compare", a, b, model_, "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    }

    std::string model_ = example("runnable/encoder-layer/model.onnx");
};

TEST_F(ComparePlans, SaysWhatBothAre) {
    const json compared = compare("a.json", "b.json");
    EXPECT_EQ(compared["first"]["strategy"]["dp"], 4);
    EXPECT_EQ(compared["first"]["strategy"]["tp"], 1);
    EXPECT_EQ(compared["second"]["strategy"]["dp"], 2);
    EXPECT_EQ(compared["second"]["strategy"]["tp"], 2);
    for (const auto& [side, file] : {std::pair{"first", "a.json"}, {"second", "b.json"}}) {
        EXPECT_EQ(compared[side]["value_ps"], json::parse(read(file))["prediction"]["value_ps"]);
        EXPECT_EQ(compared[side]["plan"], file);
    }
    const double a = compared["first"]["value_ps"];
    EXPECT_DOUBLE_EQ(compared["ratio"].get<double>(),
                     compared["second"]["value_ps"].get<double>() / a);
}

// The other way round everything is on the other side, and a plan is like itself.
TEST_F(ComparePlans, IsTheSameFromBothSides) {
    const json forth = compare("a.json", "b.json");
    const json back = compare("b.json", "a.json");
    EXPECT_EQ(forth["first"], back["second"]);
    EXPECT_EQ(forth["second"], back["first"]);
    ASSERT_EQ(forth["different_ops"].size(), back["different_ops"].size());
    EXPECT_GT(forth["different_ops"].size(), 0U);
    for (std::size_t i = 0; i < forth["different_ops"].size(); ++i) {
        EXPECT_EQ(forth["different_ops"][i]["first"], back["different_ops"][i]["second"]);
    }
    const json own = compare("a.json", "a.json");
    EXPECT_EQ(own["first"], own["second"]);
    EXPECT_EQ(own["different_ops"], json::array());
}

TEST_F(ComparePlans, AsksWhatBothWouldTakeElsewhere) {
    const json here = compare("a.json", "b.json");
    const json there = compare("a.json", "b.json", {"--machine", "dgx-h100"});
    EXPECT_EQ(there["first"]["machine"], "dgx-h100");
    EXPECT_LT(there["first"]["value_ps"], here["first"]["value_ps"]);
    EXPECT_EQ(there["different_ops"], here["different_ops"]);
}

TEST_F(ComparePlans, RefusesWhatIsNotTwoPlansOfOneModel) {
    const Outcome two = run({"compare", "a.json", model_});
    EXPECT_EQ(two.code, 2);
    EXPECT_THAT(two.err, HasSubstr("two plans and their model (PLAN PLAN MODEL)"));
    const Outcome searchers = run({"compare", "a.json", "b.json", model_, "--searchers", "heft"});
    EXPECT_EQ(searchers.code, 2);
    EXPECT_THAT(searchers.err, HasSubstr("--searchers, --strategies: are of a model"));
    EXPECT_EQ(run({"compare", "a.json", "b.json", example("models/alexnet.onnx")}).code, 6);
    // Another loss adds other ops.
    const Outcome loss = run({"plan", model_, "--bind", "batch=4", "--bind", "sequence=16",
                              "--machine", "dgx-a100", "--mode", "training", "--loss",
                              "cross-entropy", "--searcher", "data-parallel", "-o", "c.json"});
    ASSERT_EQ(loss.code, 0) << loss.err;
    const Outcome others = run({"compare", "a.json", "c.json", model_});
    EXPECT_EQ(others.code, 6);
    EXPECT_THAT(others.err, HasSubstr("graphs with other ops"));
}

}  // namespace
}  // namespace partita::tests
