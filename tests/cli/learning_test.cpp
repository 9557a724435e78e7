// SPDX-License-Identifier: Apache-2.0
//
// What `plan` asks of --reward, and that it loads no LibTorch where nothing learns.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Learning : public ProgramTest {
protected:
    void expect_refused(const std::string& message, const std::vector<std::string>& arguments) {
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 2) << result.err;
        EXPECT_THAT(result.err, HasSubstr(message));
        EXPECT_THAT(files(), IsEmpty());
    }
};

TEST_F(Learning, OnlyItsSearchersTakeMeasuredRewards) {
    expect_refused("--reward: none of the searchers learns", plan_mlp({"--reward", "measured"}));
    expect_refused("--reward: none of the searchers learns", plan_mlp({"--reward", "simulated"}));
    expect_refused("--reward: none of the searchers learns",
                   plan_mlp({"--searcher", "mcmc", "--reward", "measured"}));
    expect_refused("searcher mcmc goes by predicted times",
                   plan_mlp({"--searcher", "rl,mcmc", "--reward", "measured"}));
    expect_refused("There is: simulated, measured",
                   plan_mlp({"--searcher", "rl", "--reward", "guessed"}));
}

TEST_F(Learning, PlanningWithoutItLoadsNoLibTorch) {
    for (const std::string searcher : {"critical-path", "auto"}) {
        const std::string opened = libraries_of(plan_mlp({"--searcher", searcher}));
        EXPECT_THAT(opened, Not(HasSubstr("libtorch")));
        EXPECT_THAT(opened, Not(HasSubstr("libpartita_r")));  // runtime, rl
    }
}

}  // namespace
}  // namespace partita::tests
