// SPDX-License-Identifier: Apache-2.0
//
// Plans of more tasks than anybody reads: of 32 GPUs that do the same, what is shown is one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class FoldedPlan : public ProgramTest {
protected:
    std::string model_ = example("models/gpt2-small.onnx");

    Outcome plan(const std::vector<std::string>& more = {}) {
        std::vector<std::string> arguments{"plan",
                                           model_,
                                           "--bind",
                                           "sequence=32",
                                           "--mode",
                                           "training",
                                           "--machine",
                                           "dgx-a100:4",
                                           "--batch",
                                           "128",
                                           "--strategy",
                                           "dp=32",
                                           "--micro-batches",
                                           "4"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    }
};

TEST_F(FoldedPlan, IsShownAndWrittenByTheOneDeviceThatStandsForAll) {
    const Outcome planned = plan({"--trace", "trace.json", "--report", "page.html"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr(" tasks folded into "));
    EXPECT_THAT(planned.out, HasSubstr("node0/gpu0 .. node3/gpu7  32"));
    EXPECT_THAT(planned.out, HasSubstr("\n  node0/gpu0 x 32  "));
    const json written = written_plan();
    EXPECT_TRUE(written["order"]["folded"].get<bool>());
    EXPECT_FALSE(written["order"].contains("commit"));
    EXPECT_EQ(written["collectives"].size(), 0);
    EXPECT_EQ(written["prediction"]["devices"].size(), 32);

    const std::string trace = read("trace.json");
    EXPECT_THAT(trace, HasSubstr("\"node0/gpu0 compute x 32\""));
    EXPECT_THAT(trace, Not(HasSubstr("node0/gpu1 compute")));
    const std::string page = read("page.html");
    EXPECT_THAT(page, HasSubstr("\"alike\":32"));
    EXPECT_EQ(run({"verify", "plan.json", model_}).code, 0);
}

TEST_F(FoldedPlan, SimulatesToWhatAllTasksTake) {
    ASSERT_EQ(plan().code, 0);
    const auto simulated = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"simulate", "plan.json", model_, "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    };
    const json few = simulated({"--trace", "few.json"});
    const json all = simulated({"--no-fold", "--trace", "all.json"});
    EXPECT_EQ(few, all) << "value, tasks, devices, memory";
    EXPECT_EQ(few["value_ps"], few["planned_ps"]);
    EXPECT_LT(10 * read("few.json").size(), read("all.json").size());
    // By other prices, too.
    const json slow = simulated({"--scale", "network=0.25"});
    EXPECT_GT(slow["value_ps"].get<std::int64_t>(), few["value_ps"].get<std::int64_t>());
    EXPECT_EQ(slow, simulated({"--scale", "network=0.25", "--no-fold"}));
}

// Of more devices than any machine was allowed, in few lines and bytes.
TEST_F(FoldedPlan, OfThousandsOfDevicesIsShort) {
    const std::string mlp = example("runnable/mlp/model.onnx");
    const Outcome planned = run({"plan", mlp, "--batch", "2048", "--mode", "training", "--machine",
                                 "dgx-h100:1024x2", "--strategy", "dp=2048,zero=0"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("node0/gpu0 .. node1023/gpu1  2,048"));
    EXPECT_EQ(written_plan()["machine"]["nodes"][0]["count"], 1024);
    EXPECT_EQ(run({"verify", "plan.json", mlp}).code, 0);
    const Outcome inspected = run({"inspect", "plan.json"});
    EXPECT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_THAT(inspected.out, HasSubstr("node0/gpu0 .. node1023/gpu1  2,048"));
    EXPECT_LT(std::ranges::count(inspected.out, '\n'), 40);
}

TEST_F(FoldedPlan, IsNotFoldedWhereThatIsAskedFor) {
    ASSERT_EQ(plan({"--no-fold", "--json"}).code, 0);
    const json written = written_plan();
    EXPECT_FALSE(written["order"].contains("folded"));
    EXPECT_GT(written["order"]["commit"].size(), 100'000);
    EXPECT_GT(written["collectives"].size(), 0);
}

}  // namespace
}  // namespace partita::tests
