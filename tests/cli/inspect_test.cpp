// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

class Inspect : public ProgramTest {
protected:
    json inspect(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "inspect");
        arguments.emplace_back("--json");
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return result.code == 0 ? json::parse(result.out) : json();
    }
};

struct PublishedFlops {
    const char* model;
    std::vector<std::string> dims;  ///< dynamic dims besides the batch
    double flops;
};

// Published beside the models (examples/models/README.md, examples/runnable/README.md): one forward
// pass, batch 1, every other dynamic dim 128, two per multiply-add, counting MatMul, Gemm, Conv,
// ConvTranspose, LSTM, Attention and Einsum. Three digits are published.
TEST_F(Inspect, MatrixFlopsAgreeWithThePublishedFigures) {
    const std::vector<PublishedFlops> published = {
        {"models/alexnet.onnx", {}, 1.43e9},
        {"models/vgg16.onnx", {}, 30.9e9},
        {"models/resnet50.onnx", {}, 8.18e9},
        {"models/inception_v3.onnx", {}, 11.4e9},
        {"models/vit_b_16.onnx", {}, 35.1e9},
        {"models/bert-base.onnx", {"sequence"}, 28.5e9},
        {"models/gpt2-small.onnx", {"sequence"}, 32.2e9},
        {"models/t5-small.onnx", {"sequence", "decoder_sequence"}, 16.1e9},
        {"models/llama-3-8b.onnx", {"sequence"}, 1.93e12},
        {"models/llama-3-70b-12-layers.onnx", {"sequence"}, 2.90e12},
        {"models/deepseek-v2-4-layers.onnx", {"sequence"}, 491e9},
        {"models/deepseek-v3-4-layers.onnx", {"sequence"}, 842e9},
        {"models/dlrm.onnx", {}, 4.92e6},
        {"models/lstm-lm.onnx", {"sequence"}, 6.92e9},
        {"models/gnmt.onnx", {"sequence", "target_sequence"}, 32.7e9},
        {"runnable/mlp/model.onnx", {}, 25.9e3},
        {"runnable/convnet/model.onnx", {}, 3.15e6},
        {"runnable/encoder-layer/model.onnx", {"sequence"}, 16.8e6},
        {"runnable/lstm/model.onnx", {"sequence"}, 10.7e6},
        {"runnable/dlrm-tiny/model.onnx", {}, 5.73e3},
    };
    for (const PublishedFlops& row : published) {
        std::vector<std::string> arguments = {example(row.model), "--bind", "batch=1"};
        for (const std::string& dim : row.dims) {
            arguments.emplace_back("--bind");
            arguments.push_back(dim + "=128");
        }
        const json facts = inspect(arguments);
        ASSERT_TRUE(facts.is_object()) << row.model;
        EXPECT_NEAR(facts["matrix_flops"].get<double>(), row.flops, 0.01 * row.flops) << row.model;
        EXPECT_GE(facts["flops"], facts["matrix_flops"]) << row.model;
    }
}

TEST_F(Inspect, CountsParametersAndTheirBytes) {
    const json facts =
        inspect({example("models/llama-3-8b.onnx"), "--bind", "batch=1", "--bind", "sequence=128"});
    EXPECT_NEAR(facts["parameters"].get<double>(), 8.03e9, 0.01e9);
    EXPECT_NEAR(facts["parameter_bytes"].get<double>(), 2 * 8.03e9, 0.02e9);  // bfloat16
}

// gemm1 [1x32]x[32x128] -> tanh -> gemm2 [1x128]x[128x64] -> relu -> gemm3 [1x64]x[64x10]: a chain,
// so the critical path is everything.
TEST_F(Inspect, CriticalPathOfAChainIsAllOfIt) {
    const json facts = inspect({example("runnable/mlp/model.onnx"), "--batch", "1"});
    EXPECT_EQ(facts["critical_path"]["flops"], facts["flops"]);
}

TEST_F(Inspect, ListsWhatOpsCanBeSplitAlong) {
    const Outcome result =
        run({"inspect", example("runnable/mlp/model.onnx"), "--batch", "8", "--ops"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("8 sample"));
    EXPECT_THAT(result.out, HasSubstr("128 parameter"));
    EXPECT_THAT(result.out, HasSubstr("32 reduction"));
}

TEST_F(Inspect, NamesTheBlockOfEachOp) {
    const std::vector<std::string> gpt2{example("models/gpt2-small.onnx"), "--batch", "1", "--bind",
                                        "sequence=128"};
    const json blocks = inspect(gpt2)["blocks"];
    const auto first = blocks.find("model.transformer.h.0");
    ASSERT_NE(first, blocks.end());
    const auto last = blocks.find("model.transformer.h.11");
    ASSERT_NE(last, blocks.end());
    EXPECT_EQ(blocks.find("model.transformer.h.12"), blocks.end());
    EXPECT_GT(*last, 30);

    std::vector<std::string> listing{"inspect", "--ops"};
    listing.insert(listing.end(), gpt2.begin(), gpt2.end());
    EXPECT_THAT(run(listing).out, ContainsRegex("node_addmm_47 +Gemm .* model.transformer.h.11\n"));
}

TEST_F(Inspect, TellsPlansMachinesAndWorkloadsApart) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    EXPECT_EQ(inspect({"plan.json"})["searcher"], "critical-path");
    EXPECT_EQ(inspect({"dgx-a100"})["name"], "dgx-a100");
    EXPECT_EQ(inspect({example("machines/lab.json")})["format"], "partita-machine");
    EXPECT_EQ(inspect({example("workloads/throughput/layer_bert24_inference.json")})["ops"], 32);
}

TEST_F(Inspect, SaysHowFastAMachineCanBeAtBest) {
    const json facts =
        inspect({example("models/resnet50.onnx"), "--batch", "1", "--machine", "dgx-a100"});
    EXPECT_GT(facts["lower_bound_ps"], 0);
    EXPECT_GE(facts["lower_bound_ps"], facts["critical_path"]["time_ps"]);
}

}  // namespace
}  // namespace partita::tests
