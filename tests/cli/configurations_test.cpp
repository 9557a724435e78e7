// SPDX-License-Identifier: Apache-2.0
//
// Parallel configurations of one's own (--strategy), and those of frameworks, as `plan` takes them.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Configurations : public ProgramTest {};

// Also from one that gathers again for the backward, of which nothing is said to other searchers.
TEST_F(Configurations, AreWhatOtherSearchersStartFrom) {
    const std::vector<std::string> base = {
        "plan",      example("runnable/encoder-layer/model.onnx"),
        "--bind",    "batch=4",
        "--bind",    "sequence=16",
        "--machine", "dgx-a100",
        "--mode",    "training"};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), base.begin(), base.end());
        return run(more);
    };
    ASSERT_EQ(with({"--strategy", "dp=2,tp=4,pp=1,sp", "-o", "first.json"}).code, 0);
    const json first = json::parse(read("first.json"));
    ASSERT_TRUE(first["policy"]["gather_again"]);
    const Outcome result =
        with({"--import-plan", "first.json", "--searcher", "hash", "--evaluations", "1",
              "--micro-batches", std::to_string(first["policy"]["micro_batches"].get<int>()),
              "--schedule", first["policy"]["schedule"].get<std::string>()});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(written_plan()["prediction"]["value_ps"], first["prediction"]["value_ps"]);
    EXPECT_EQ(written_plan()["policy"], first["policy"]);
}

// This model names no layers, which an engine would give in equal numbers to its stages.
TEST_F(Configurations, EveryFrameworkRunsAModelWithoutLayers) {
    for (const auto& entry :
         std::filesystem::directory_iterator(tests::repository() / "data/frameworks")) {
        const std::string framework = entry.path().stem().string();
        for (const char* const strategy : {"", "pp=1", "pp=2,layers=work"}) {
            std::vector<std::string> arguments = {"plan",      example("runnable/mlp/model.onnx"),
                                                  "--batch",   "8",
                                                  "--mode",    "training",
                                                  "--machine", "cpu:2",
                                                  "--json",    "--framework",
                                                  framework};
            if (*strategy != 0) arguments.insert(arguments.end(), {"--strategy", strategy});
            const Outcome result = run(arguments);
            ASSERT_EQ(result.code, 0) << framework << ' ' << strategy << ' ' << result.err;
            EXPECT_GT(json::parse(result.out)["value_ps"].get<std::int64_t>(), 0);
        }
    }
}

TEST_F(Configurations, AreRefusedWhereTheyContradictOtherOptions) {
    const auto with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {
            "plan", example("runnable/mlp/model.onnx"), "--batch", "8", "--machine", "dgx-a100"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    };
    const auto error_of = [&](const std::vector<std::string>& more) {
        const Outcome result = with(more);
        EXPECT_EQ(result.code, 2);
        EXPECT_FALSE(std::filesystem::exists(folder() / "plan.json"));
        return result.err;
    };
    EXPECT_THAT(error_of({"--strategy", "dp=2,zero=1"}), HasSubstr("Add --mode training"));
    EXPECT_THAT(error_of({"--strategy", "dp=2", "--searcher", "mcmc"}),
                HasSubstr("searcher mcmc proposes other plans too"));
    EXPECT_THAT(error_of({"--strategy", "dp=2,zero=1", "--mode", "training", "--gradient-sync",
                          "parameter-server"}),
                HasSubstr("Leave --gradient-sync out"));
    EXPECT_THAT(error_of({"--strategy", "pp=2,vpp=2", "--schedule", "1f1b", "--mode", "training"}),
                HasSubstr("vpp=2 is --schedule interleaved:2"));
    EXPECT_THAT(
        error_of({"--framework", "fsdp", "--strategy", "vpp=2", "--mode", "training"}),
        HasSubstr(
            "with --framework fsdp: vpp=2 is of stages, and pp=1 has none. Say pp=2 or more"));
    EXPECT_THAT(error_of({"--strategy", "tp=2", "--dims", "O"}), HasSubstr("must stay whole"));
    EXPECT_THAT(error_of({"--strategy", "tp=2", "--import-plan", "other.json"}),
                HasSubstr("Leave --import-plan out"));
    EXPECT_EQ(with({"--strategy", "tp=2"}).code, 0);
    EXPECT_EQ(written_plan()["search"]["searcher"], "grids");
}

}  // namespace
}  // namespace partita::tests
