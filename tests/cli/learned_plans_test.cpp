// SPDX-License-Identifier: Apache-2.0
//
// `plan` with searchers that learn: policies, curves and measured rewards, through the program.
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
using testing::IsEmpty;

class LearnedPlans : public ProgramTest {
protected:
    static std::vector<std::string> learn(std::vector<std::string> more) {
        more.insert(more.begin(), {"--searcher", "rl", "--evaluations", "48"});
        return plan_mlp(more);
    }
};

TEST_F(LearnedPlans, KeepAndUsePolicies) {
    const Outcome learned = run(learn({"--save-policy", "a.policy", "--learning-curve", "c.csv"}));
    ASSERT_EQ(learned.code, 0) << learned.err;
    EXPECT_THAT(files(), ElementsAre("a.policy", "c.csv", "c.svg", "plan.json"));
    EXPECT_THAT(read("c.csv"), HasSubstr("\n48,"));
    EXPECT_THAT(read("c.svg"), HasSubstr("heft"));
    const std::string plan = read("plan.json");
    EXPECT_EQ(run({"verify", "plan.json", example("runnable/mlp/model.onnx")}).code, 0);

    // The same seed and evaluations: the same bytes.
    ASSERT_EQ(run(learn({"--threads", "1"})).code, 0);
    EXPECT_EQ(read("plan.json"), plan);

    const Outcome used = run(learn({"--load-policy", "a.policy", "--zero-shot", "--json"}));
    ASSERT_EQ(used.code, 0) << used.err;
    EXPECT_EQ(nlohmann::json::parse(used.out).at("searcher"), "rl");
}

TEST_F(LearnedPlans, RefusePoliciesThatAreNone) {
    write("bad.policy", "partita-policy 2\ndigest 00\nfeatures 1\n");
    const Outcome corrupt = run(learn({"--load-policy", "bad.policy"}));
    EXPECT_EQ(corrupt.code, 3);
    EXPECT_THAT(corrupt.err, HasSubstr("bad.policy: the policy is corrupt"));
    const Outcome missing = run(learn({"--load-policy", "none.policy"}));
    EXPECT_EQ(missing.code, 3);
    EXPECT_THAT(missing.err, HasSubstr("none.policy"));
    EXPECT_THAT(files(), ElementsAre("bad.policy"));

    ASSERT_EQ(run(learn({"--save-policy", "a.policy"})).code, 0);
    const Outcome other =
        run(plan_mlp({"--searcher", "rl-hierarchical", "--load-policy", "a.policy"}));
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("this is a policy of rl."));
}

TEST_F(LearnedPlans, MayBeRewardedForTheTimeTheyTake) {
    const Outcome result =
        run(plan_mlp({"--searcher", "rl", "--reward", "measured", "--evaluations", "4", "--json"}));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_GT(nlohmann::json::parse(result.out).at("measured_ps"), 0);
    EXPECT_EQ(run({"verify", "plan.json", example("runnable/mlp/model.onnx")}).code, 0);
}

TEST_F(LearnedPlans, ArePlansWhenInterrupted) {
    std::vector<std::string> arguments = plan_mlp(
        {"--searcher", "rl", "--save-policy", "a.policy", "--time-limit", "600", "--verbose"});
    const Outcome result = run_and_interrupt_at("searching", arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(files(), ElementsAre("a.policy", "plan.json"));
}

}  // namespace
}  // namespace partita::tests
