// SPDX-License-Identifier: Apache-2.0
//
// What `plan` asks of --reward, and that it loads no LibTorch where nothing learns.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Learning : public ProgramTest {};

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

TEST_F(Learning, WithoutItsLibraryPlanSaysHowToGetIt) {
    // What is not linked is looked for beside libpartita.
    const auto built = tests::program().parent_path();
    const auto name = std::filesystem::read_symlink(built / "libpartita.so");
    std::filesystem::create_symlink(built / name, folder() / name);
    ::setenv("LD_LIBRARY_PATH", folder().c_str(), 1);
    for (const std::string searchers : {"rl", "mcmc,rl-hierarchical"}) {
        const Outcome result = run(plan_mlp({"--searcher", searchers}));
        EXPECT_EQ(result.code, 2);
        EXPECT_THAT(result.err, AllOf(HasSubstr("this installation has no searchers that learn"),
                                      HasSubstr("scripts/setup")));
    }
    EXPECT_EQ(run(plan_mlp()).code, 0);
    ::unsetenv("LD_LIBRARY_PATH");
}

}  // namespace
}  // namespace partita::tests
