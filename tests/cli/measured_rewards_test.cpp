// SPDX-License-Identifier: Apache-2.0
//
// --reward measured where plans can run, and that the library which runs them is loaded.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;

class MeasuredRewards : public ProgramTest {};

TEST_F(MeasuredRewards, AreOfThisHost) {
    const auto measured = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"--searcher", "mcmc,rl", "--reward", "measured"});
        return plan_mlp(more);
    };
    expect_refused("plans for machine 'dgx-a100' cannot run here",
                   measured({"--machine", "dgx-a100"}));
    expect_refused("ask for --objective latency", measured({"--objective", "throughput"}));
    expect_refused("a workload has costs and no operators",
                   {"plan", example("workloads/throughput/layer_bert24_inference.json"),
                    "--searcher", "rl", "--reward", "measured"});
}

TEST_F(MeasuredRewards, AreOfTheRuntimeThatExecutingLoads) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string opened =
        libraries_of({"execute", "plan.json", example("runnable/mlp/model.onnx"),
                      "--random-weights", "1", "--iterations", "1"});
    EXPECT_THAT(opened, HasSubstr("libpartita_runtime.so"));
    EXPECT_THAT(opened, HasSubstr("libtorch_cpu.so"));
}
}  // namespace
}  // namespace partita::tests
