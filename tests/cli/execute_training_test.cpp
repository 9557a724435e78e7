// SPDX-License-Identifier: Apache-2.0
//
// Training as it is run: what engineers configure computes what one device computes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ExecuteTraining : public ProgramTest {
protected:
    /// A plan for four CPU devices, verified and run.
    void expect_as_one_device(const std::string& model, const std::vector<std::string>& options,
                              const std::vector<std::string>& running = {}) {
        SCOPED_TRACE(testing::PrintToString(options));
        std::vector<std::string> plan = {"plan",   model,      "--machine", "cpu:4",
                                         "--mode", "training", "-o",        "plan.json"};
        plan.insert(plan.end(), options.begin(), options.end());
        const Outcome planned = run(plan);
        ASSERT_EQ(planned.code, 0) << planned.err;
        EXPECT_EQ(run({"verify", "plan.json", model}).code, 0);
        std::vector<std::string> execute = {"execute",      "plan.json", model,      "--check",
                                            "--iterations", "1",         "--warmup", "0"};
        execute.insert(execute.end(), running.begin(), running.end());
        const Outcome result = run(execute);
        EXPECT_EQ(result.code, 0) << result.out << result.err;
    }
};

TEST_F(ExecuteTraining, OfConfigurationsEqualsOneDevice) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    for (const char* const strategy :
         {"dp=2,tp=2", "tp=4,sp", "tp=2,sp=0,pp=2", "dp=2,pp=2,zero=1", "dp=2,tp=2,zero=3",
          "pp=2,vpp=2,tp=2", "dp=2,pp=2,zero=2,order=pp-dp-tp", "tp=2,cp=2,sp", "cp=4",
          "dp=2,cp=2,zero=1,order=dp-cp-tp-pp", "dp=2,tp=2,zero=0,reduce=each",
          "dp=2,pp=2,zero=3,reduce=last"}) {
        expect_as_one_device(model, {"--bind", "batch=8", "--bind", "sequence=8", "--optimizer",
                                     "adam", "--micro-batches", "4", "--strategy", strategy});
    }
}

// Of a mixture of experts, with weights that are made up. Thirteen tokens with three experts each
// leave a part of the last expert to be filled up.
TEST_F(ExecuteTraining, OfExpertsInPartsEqualsOneDevice) {
    const std::string model = example("models/moe-tiny.onnx");
    for (const char* const strategy :
         {"dp=4,ep=4", "dp=2,ep=2,tp=2,zero=1", "dp=2,ep=2,pp=2", "dp=2,ep=2,cp=2,zero=2"}) {
        expect_as_one_device(model,
                             {"--bind", "batch=4", "--bind", "sequence=13", "--optimizer", "adam",
                              "--strategy", strategy},
                             {"--random-weights", "1"});
    }
}

// Gradients that are reduced together, and new values that are gathered together.
TEST_F(ExecuteTraining, OfBucketsEqualsOneDevice) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    for (const char* const strategy : {"dp=4,zero=0", "dp=4,zero=0,reduce=each", "dp=2,tp=2,zero=1",
                                       "dp=2,pp=2,zero=2", "dp=4,zero=3"}) {
        std::map<std::string, std::size_t> collectives;
        for (const char* const size : {"none", "64KiB", "layer", "all"}) {
            expect_as_one_device(
                model, {"--bind", "batch=8", "--bind", "sequence=8", "--optimizer", "adam",
                        "--micro-batches", "2", "--bucket-bytes", size, "--strategy", strategy});
            collectives[size] = json::parse(read("plan.json"))["collectives"].size();
        }
        EXPECT_LT(collectives["64KiB"], collectives["none"]) << strategy;
        EXPECT_LT(collectives["layer"], collectives["none"]) << strategy << ": op by op";
        EXPECT_LT(collectives["all"], collectives["64KiB"]) << strategy;
    }
    EXPECT_EQ(json::parse(read("plan.json"))["policy"]["bucket_bytes"], "all");
}

// A model of two layers: each is fetched and reduced as one, in each micro-batch.
TEST_F(ExecuteTraining, OfLayersInShardsEqualsOneDevice) {
    const std::string model = example("models/moe-tiny.onnx");
    std::map<std::string, std::size_t> collectives;
    for (const char* const size : {"1", "layer"}) {
        for (const char* const recompute : {"none", "full"}) {
            expect_as_one_device(
                model,
                {"--bind", "batch=8", "--bind", "sequence=4", "--micro-batches", "2", "--recompute",
                 recompute, "--bucket-bytes", size, "--strategy", "dp=4,tp=1,pp=1,zero=3"},
                {"--random-weights", "1"});
        }
        collectives[size] = json::parse(read("plan.json"))["collectives"].size();
    }
    EXPECT_LT(2 * collectives["layer"], collectives["1"]);
}

// By plain gradient descent: of Adam a step is the same however gradients are scaled.
TEST_F(ExecuteTraining, ThatClipsGradientsEqualsOneDevice) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    for (const char* const strategy : {"dp=4,zero=1", "tp=2,pp=2", "dp=2,tp=2,zero=3"}) {
        expect_as_one_device(model, {"--bind", "batch=8", "--bind", "sequence=8", "--micro-batches",
                                     "2", "--clip-norm", "0.01", "--strategy", strategy});
    }
    EXPECT_EQ(json::parse(read("plan.json"))["policy"]["clip_norm"], 0.01);
}

TEST_F(ExecuteTraining, LeavesFrozenParametersAlone) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    ASSERT_EQ(
        run({"plan", model, "--bind", "batch=8", "--bind", "sequence=8", "--machine", "cpu:2",
             "--mode", "training", "--frozen", "*bias", "--frozen", "*norm*,*", "-o", "plan.json"})
            .code,
        2)
        << "nothing is left";
    ASSERT_EQ(
        run({"plan", model, "--bind", "batch=8", "--bind", "sequence=8", "--machine", "cpu:2",
             "--mode", "training", "--frozen", "*bias", "--frozen", "*norm*", "-o", "plan.json"})
            .code,
        0);
    EXPECT_THAT(read("plan.json"), HasSubstr(R"("frozen": ["*bias", "*norm*"]})"));
    EXPECT_EQ(run({"execute", "plan.json", model, "--check", "--iterations", "1"}).code, 0);
}

// Gradients may be wider than what they are of.
TEST_F(ExecuteTraining, WithWideGradientsEqualsOneDevice) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    ASSERT_EQ(run({"plan",
                   model,
                   "--bind",
                   "batch=8",
                   "--bind",
                   "sequence=8",
                   "--machine",
                   "cpu:4",
                   "--mode",
                   "training",
                   "--optimizer",
                   "adam",
                   "--precision",
                   "bf16,grads=fp32",
                   "--strategy",
                   "dp=2,tp=2,zero=1",
                   "--micro-batches",
                   "2",
                   "-o",
                   "plan.json"})
                  .code,
              0);
    EXPECT_THAT(read("plan.json"), HasSubstr(R"("precision": "bfloat16", "gradients": "float32")"));
    EXPECT_EQ(run({"verify", "plan.json", model}).code, 0);
    const Outcome result = run({"execute", "plan.json", model, "--check", "--iterations", "1"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    const Outcome unknown = run({"plan", model, "--precision", "bf16,grads=int8"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("--precision bf16,grads=int8: 'grads=int8' is unknown."));
}

// A pipeline whose bubbles gradients of weights fill: shorter than 1F1B, and the same numbers.
TEST_F(ExecuteTraining, ZeroBubbleEqualsOneDevice) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const auto plan = [&](const char* schedule) {
        const Outcome result =
            run({"plan",       model,   "--bind",          "batch=8",  "--bind",     "sequence=32",
                 "--machine",  "cpu:2", "--mode",          "training", "--loss",     "mse",
                 "--strategy", "pp=2",  "--micro-batches", "4",        "--schedule", schedule,
                 "--json",     "-o",    "plan.json"});
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out)["value_ps"].get<std::int64_t>();
    };
    const std::int64_t plain = plan("1f1b");
    EXPECT_LT(plan("zb-h1"), plain);
    EXPECT_EQ(run({"verify", "plan.json", model}).code, 0);
    const Outcome result = run({"execute", "plan.json", model, "--check", "--iterations", "1"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
}

// Everything that the best plan of a form is made of, and no more than that.
TEST_F(ExecuteTraining, ProfilesWhatAConfigurationNeeds) {
    const std::string model = example("runnable/mlp/model.onnx");
    const auto with = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(),
                         {"--batch", "8", "--mode", "training", "--machine", "cpu:2"});
        return run(arguments);
    };
    const Outcome measured = with({"profile", model, "--strategy", "dp=2,zero=0", "--iterations",
                                   "2", "--micro-batches", "1"});
    ASSERT_EQ(measured.code, 0) << measured.out << measured.err;
    const auto costs_of = [&](const char* strategy) {
        const Outcome planned = with({"plan", model, "--strategy", strategy, "--profile",
                                      "profile.sqlite", "--micro-batches", "1", "--json"});
        EXPECT_EQ(planned.code, 0) << planned.err;
        return json::parse(planned.out)["costs"];
    };
    EXPECT_EQ(costs_of("dp=2,zero=0")["analytic"], 0);
    EXPECT_GT(costs_of("tp=2,sp=0")["analytic"], 0);
    const Outcome both = with({"profile", model, "--strategy", "dp=2", "--plan", "plan.json"});
    EXPECT_EQ(both.code, 2);
    const Outcome impossible = with({"profile", model, "--strategy", "tp=64"});
    EXPECT_EQ(impossible.code, 2);
    EXPECT_THAT(impossible.err, HasSubstr("--strategy tp=64"));
    const Outcome float8 = with({"profile", model, "--precision", "bf16,products=fp8", "--strategy",
                                 "dp=2", "--db", "8.db"});
    EXPECT_EQ(float8.code, 2);
    EXPECT_THAT(float8.err, HasSubstr("products in float8 are priced, not executed"));
    EXPECT_FALSE(std::filesystem::exists(folder() / "8.db"));
    const Outcome too_large =
        run({"profile", model, "--batch", "100000000000", "--mode", "training", "--machine",
             "cpu:2", "--strategy", "dp=2", "--db", "other.db"});
    EXPECT_EQ(too_large.code, 4);
    EXPECT_THAT(too_large.err, HasSubstr("partita: infeasible: "));
    EXPECT_THAT(too_large.err, testing::Not(HasSubstr("--memory-limit")));
    EXPECT_FALSE(std::filesystem::exists(folder() / "other.db"));
}

// Products of less precision: another model to the digest; what GPUs have no units for is said.
TEST_F(ExecuteTraining, ProductsAreOfThePrecisionThatThePlanSays) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const std::string data = example("runnable/encoder-layer/test_data_set_0");
    const auto plan = [&](const char* precision, const char* machine) {
        return run({"plan", model, "--inputs", data, "--machine", machine, "--precision", precision,
                    "--searcher", "data-parallel", "-o", "plan.json"});
    };
    const Outcome tf32 = plan("tf32", "cpu:2");
    ASSERT_EQ(tf32.code, 0) << tf32.err;
    EXPECT_THAT(tf32.err, HasSubstr("no matrix_flops of tf32 are named: such products are priced"));
    EXPECT_THAT(read("plan.json"), HasSubstr(R"("precision": "float32", "products": "tf32")"));
    EXPECT_EQ(run({"execute", "plan.json", model, "--inputs", data}).code, 0);
    EXPECT_EQ(run({"verify", "plan.json", model, "--precision", "fp32"}).code, 6);
    const Outcome on_gpus = plan("tf32", "dgx-a100");
    EXPECT_THAT(on_gpus.err, testing::Not(HasSubstr("no matrix_flops")));
    EXPECT_THAT(on_gpus.out, HasSubstr("float32, products in TF32; bfloat16 products are 2 times"));
    const Outcome float8 = plan("bf16,products=fp8", "cpu:2");
    ASSERT_EQ(float8.code, 0) << float8.err;
    const Outcome run_it = run({"execute", "plan.json", model, "--inputs", data});
    EXPECT_EQ(run_it.code, 2);
    EXPECT_THAT(run_it.err, HasSubstr("products in float8 are priced, not executed"));
    const Outcome both = plan("tf32,products=fp8", "cpu:2");
    EXPECT_EQ(both.code, 2);
    EXPECT_THAT(both.err, HasSubstr("products are in tf32 or in float8. Leave one of them out."));
}

// A float32 model in 16 bits: splits equal one device, and the file's own data are near.
TEST_F(ExecuteTraining, InSixteenBitsEqualsOneDeviceAndTheDataSet) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const std::string data = example("runnable/encoder-layer/test_data_set_0");
    for (const char* const precision : {"bf16", "fp16"}) {
        ASSERT_EQ(run({"plan", model, "--inputs", data, "--machine", "cpu:4", "--mode", "training",
                       "--optimizer", "adam", "--loss", "mse", "--precision", precision,
                       "--strategy", "dp=2,tp=2,zero=1", "-o", "plan.json"})
                      .code,
                  0)
            << precision;
        EXPECT_EQ(run({"verify", "plan.json", model}).code, 0) << precision;
        const Outcome result =
            run({"execute", "plan.json", model, "--inputs", data, "--check", "--iterations", "1"});
        EXPECT_EQ(result.code, 0) << precision << ": " << result.out << result.err;
        ASSERT_EQ(run({"plan", model, "--inputs", data, "--machine", "cpu:2", "--precision",
                       precision, "-o", "plan.json"})
                      .code,
                  0);
        const Outcome near = run({"execute", "plan.json", model, "--inputs", data});
        EXPECT_EQ(near.code, 0) << precision << ": " << near.out << near.err;
        EXPECT_THAT(near.out, HasSubstr("expected output"));
    }
    // Another precision than the plan's is another model.
    EXPECT_EQ(run({"verify", "plan.json", model, "--precision", "bf16"}).code, 6);
    EXPECT_THAT(read("plan.json"), HasSubstr(R"("unroll": false, "precision": "float16")"));
    const Outcome unknown = run({"plan", model, "--inputs", data, "--precision", "int8"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err,
                HasSubstr("--precision int8: unknown. There is: model, fp32, tf32, bf16, fp16."));
}

// Of a model whose weights are not at hand: planned, verified and priced as the plan has it.
TEST_F(ExecuteTraining, AttentionIsWhatThePlanSays) {
    const std::string model = example("models/bert-base.onnx");
    const auto plan = [&](const std::string& how, const std::string& of) {
        return run({"plan", of, "--batch", "4", "--bind", "sequence=64", "--machine", "dgx-a100",
                    "--mode", "training", "--strategy", "dp=4,tp=2", "--attention", how, "-o",
                    how + ".json"});
    };
    const Outcome apart = plan("products", model);
    ASSERT_EQ(apart.code, 0) << apart.err;
    EXPECT_THAT(apart.out, HasSubstr("attention  12 as products around a softmax"));
    EXPECT_FALSE(json::parse(read("products.json"))["model"].contains("attention"));
    const Outcome planned = plan("fused", model);
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("12 Attention ops in place of products"));
    EXPECT_THAT(planned.out, testing::Not(HasSubstr("as products around")));
    EXPECT_EQ(json::parse(read("fused.json"))["model"]["attention"], "fused");
    EXPECT_EQ(run({"verify", "fused.json", model}).code, 0);
    EXPECT_EQ(plan("flash", model).code, 2);
    const Outcome before = run({"inspect", example("models/llama-3-8b.onnx"), "--bind", "batch=1",
                                "--bind", "sequence=8", "--attention", "fused"});
    EXPECT_THAT(before.out + before.err, HasSubstr("one op in the file already (32 of them)"));
    const Outcome refused = plan("fused", example("models/lstm-lm.onnx"));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("lstm-lm.onnx: --attention fused: the model has no"));
}

// Of scores that a condition masks, heads and queries split; what is run is what one device computes.
TEST_F(ExecuteTraining, RunsFusedAttention) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const std::string data = example("runnable/encoder-layer/test_data_set_0");
    ASSERT_EQ(run({"plan", model, "--inputs", data, "--machine", "cpu:2", "--attention", "fused",
                   "-o", "plan.json"})
                  .code,
              0);
    const Outcome near = run({"execute", "plan.json", model, "--inputs", data});
    EXPECT_EQ(near.code, 0) << near.out << near.err;
    EXPECT_THAT(near.out, HasSubstr("expected output"));
    for (const char* const strategy : {"dp=2,tp=2", "tp=2,cp=2", "cp=4"}) {
        expect_as_one_device(model, {"--bind", "batch=4", "--bind", "sequence=8", "--attention",
                                     "fused", "--strategy", strategy});
    }
    const Outcome other = run({"execute", "plan.json", model, "--attention", "products"});
    EXPECT_EQ(other.code, 6) << other.err;
    EXPECT_THAT(other.err, HasSubstr(" --attention fused. Give that model"));
    const Outcome shown = run({"inspect", "plan.json"});
    EXPECT_THAT(shown.out, HasSubstr("--attention fused\n"));
}

/// The encoder layer with a Dropout of the softmax that trains, as models are exported for training.
std::string with_dropout(const std::string& file) {
    onnx::ModelProto model;
    std::ifstream in(file, std::ios::binary);
    EXPECT_TRUE(model.ParseFromIstream(&in));
    onnx::GraphProto& graph = *model.mutable_graph();
    const auto add_constant = [&](const char* name, onnx::TensorProto::DataType type) {
        onnx::TensorProto& constant = *graph.add_initializer();
        constant.set_name(name);
        constant.set_data_type(type);
        return &constant;
    };
    add_constant("ratio", onnx::TensorProto::FLOAT)->add_float_data(0.25F);
    add_constant("trains", onnx::TensorProto::BOOL)->add_int32_data(1);
    int last = 0;
    while (graph.node(last).output(0) != "matmul_1") ++last;
    graph.mutable_node(last)->set_input(0, "dropped");
    onnx::NodeProto& dropout = *graph.add_node();
    dropout.set_op_type("Dropout");
    dropout.set_name("dropout");
    for (const char* const input : {"softmax", "ratio", "trains"}) dropout.add_input(input);
    dropout.add_output("dropped");
    for (int i = graph.node_size() - 1; i > last; --i) {
        graph.mutable_node()->SwapElements(i, i - 1);
    }
    return model.SerializeAsString();
}

// Whoever computes an element of the scores drops it or not, forward and backward.
TEST_F(ExecuteTraining, RunsAttentionThatDropsScores) {
    write("model.onnx", with_dropout(example("runnable/encoder-layer/model.onnx")));
    for (const char* const attention : {"fused", "products", "blocks=4"}) {
        for (const char* const strategy : {"dp=2,tp=2", "tp=2,cp=2", "dp=2,pp=2"}) {
            expect_as_one_device(
                "model.onnx", {"--bind", "batch=4", "--bind", "sequence=8", "--optimizer", "adam",
                               "--micro-batches", "2", "--recompute", "full", "--attention",
                               attention, "--strategy", strategy});
        }
    }
    std::map<std::string, double> losses;
    for (const char* const attention : {"fused", "products", "blocks=4"}) {
        ASSERT_EQ(
            run({"plan", "model.onnx", "--bind", "batch=4", "--bind", "sequence=8", "--mode",
                 "training", "--machine", "cpu:2", "--attention", attention, "-o", "plan.json"})
                .code,
            0);
        const std::string told = run({"inspect", "model.onnx", "--bind", "batch=4", "--bind",
                                      "sequence=8", "--ops", "--attention", attention})
                                     .out;
        EXPECT_EQ(told.find("Dropout") != std::string::npos, std::string(attention) == "products")
            << told;
        const Outcome result = run({"execute", "plan.json", "model.onnx", "--json"});
        ASSERT_EQ(result.code, 0) << result.err;
        losses[attention] = json::parse(result.out)["loss"];
    }
    const double expected = losses["products"];
    EXPECT_NEAR(losses["fused"], expected, 1e-5 * std::abs(expected));
    EXPECT_NEAR(losses["blocks=4"], expected, 1e-5 * std::abs(expected));
}

// Blocks of queries on several devices, or several on each, that keys go round; the outputs are those
// that the model's author got.
TEST_F(ExecuteTraining, RunsAttentionInBlocks) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const std::string data = example("runnable/encoder-layer/test_data_set_0");
    const Outcome planned = run({"plan", model, "--inputs", data, "--machine", "cpu:2",
                                 "--attention", "blocks=3", "-o", "plan.json"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("1 Attention ops in 3 blocks each"));
    EXPECT_EQ(json::parse(read("plan.json"))["model"]["attention_blocks"], 3);
    const Outcome near = run({"execute", "plan.json", model, "--inputs", data});
    EXPECT_EQ(near.code, 0) << near.out << near.err;
    EXPECT_THAT(near.out, HasSubstr("expected output"));
    EXPECT_THAT(run({"inspect", "plan.json"}).out, HasSubstr("--attention blocks=3\n"));
    for (const char* const strategy : {"cp=4", "dp=2,cp=2,zero=2", "tp=2,cp=2,sp", "pp=2,cp=2"}) {
        expect_as_one_device(model, {"--bind", "batch=4", "--bind", "sequence=8", "--attention",
                                     "blocks=4", "--strategy", strategy});
    }
    for (const char* const strategy : {"cp=3", "dp=2,cp=2,zero=1"}) {
        expect_as_one_device(
            example("models/moe-tiny.onnx"),
            {"--bind", "batch=4", "--bind", "sequence=12", "--optimizer", "adam", "--attention",
             "blocks=6", "--recompute", "full", "--strategy", strategy},
            {"--random-weights", "1"});
    }
    for (const char* const how : {"blocks=1", "blocks=5000", "blocks=x"}) {
        const Outcome unknown = run({"inspect", model, "--inputs", data, "--attention", how});
        EXPECT_EQ(unknown.code, 2);
        EXPECT_THAT(unknown.err, HasSubstr("There is: fused, products, blocks=N with N from 2"));
    }
    const Outcome refused = run({"inspect", model, "--inputs", data, "--attention", "blocks=7"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("queries and keys that can be cut into so many blocks"));
    const Outcome none = run(
        {"inspect", example("models/resnet50.onnx"), "--batch", "1", "--attention", "blocks=2"});
    EXPECT_EQ(none.code, 2);
    EXPECT_THAT(none.err, HasSubstr("--attention blocks=2: the model has no products around"));
}

// The plan says which ops are one kernel, and what it is given says no more.
TEST_F(ExecuteTraining, RunsOpsOfOneKernelAsThePlanHasThem) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    std::vector<std::string> plan = {"plan",       model,       "--bind", "batch=4", "--bind",
                                     "sequence=6", "--machine", "cpu:2",  "--mode",  "training",
                                     "--strategy", "dp=1,tp=2", "--fuse"};
    std::vector<std::string> fused = plan;
    fused.emplace_back("bias-gelu");
    const Outcome planned = run(fused);
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("Ops of bias-gelu as one kernel, 1 times"));
    EXPECT_EQ(json::parse(read("plan.json"))["model"]["fuse"], json({"bias-gelu"}));
    for (const char* command : {"verify", "simulate"}) {
        const Outcome result = run({command, "plan.json", model});
        EXPECT_EQ(result.code, 0) << command << ": " << result.err;
    }
    const Outcome result = run({"execute", "plan.json", model, "--check", "--iterations", "1"});
    EXPECT_EQ(result.code, 0) << result.err;
    const Outcome other = run({"simulate", "plan.json", model, "--fuse", "Gelu(x)"});
    EXPECT_EQ(other.code, 6) << other.err;
    plan.emplace_back("swiglu");
    const Outcome refused = run(plan);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("model.onnx: --fuse swiglu: the model has no such ops"));
}

}  // namespace
}  // namespace partita::tests
