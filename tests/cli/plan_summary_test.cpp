// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
using testing::Not;

class PlanSummary : public ProgramTest {};

TEST_F(PlanSummary, SaysHowTheBatchWasBound) {
    const Outcome result = run(plan_mlp());
    EXPECT_THAT(result.out, HasSubstr("batch = 8"));
}

TEST_F(PlanSummary, ListsOperatorsWithoutARuleOnce) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    auto& custom = *model.add_opset_import();
    custom.set_domain("com.example");
    custom.set_version(1);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name("custom");
    const auto add_value = [](onnx::ValueInfoProto& value, const char* name) {
        value.set_name(name);
        auto& type = *value.mutable_type()->mutable_tensor_type();
        type.set_elem_type(onnx::TensorProto::FLOAT);
        type.mutable_shape()->add_dim()->set_dim_value(4);
    };
    add_value(*graph.add_input(), "x");
    add_value(*graph.add_value_info(), "y");
    add_value(*graph.add_output(), "z");
    for (const auto& [from, to] : {std::pair{"x", "y"}, std::pair{"y", "z"}}) {
        onnx::NodeProto& node = *graph.add_node();
        node.set_op_type("Frobnicate");
        node.set_domain("com.example");
        node.add_input(from);
        node.add_output(to);
    }
    write("custom.onnx", model.SerializeAsString());
    const Outcome result = run({"plan", "custom.onnx", "--machine", "cpu:2", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["unsupported_ops"], json({{"Frobnicate", 2}}));
}

// Nodes of today's exporters are named node_linear_3; their layer is in the metadata.
TEST_F(PlanSummary, FixesTheOpsOfABlockAndSaysHowMany) {
    const auto plan_with = [&](const std::string& glob) {
        write("fix.json", R"({"ops": [{"match": ")" + glob + R"(", "devices": [3]}]})");
        return run({"plan", example("models/llama-3-8b.onnx"), "--batch", "1", "--bind",
                    "sequence=128", "--machine", "dgx-h100", "--searcher", "single-device", "--fix",
                    "fix.json"});
    };
    const Outcome fixed = plan_with("*layers.3");
    EXPECT_EQ(fixed.code, 0);
    EXPECT_THAT(fixed.err, HasSubstr(R"(--fix "*layers.3": matched 43 ops, 9 parameters)"));
    const Outcome parameters = plan_with("*layers.3.*weight");
    EXPECT_EQ(parameters.code, 3);
    EXPECT_THAT(parameters.err, HasSubstr("and no op of the model"));
    const Outcome misspelt = plan_with("*layer_s.layers.99");
    EXPECT_EQ(misspelt.code, 3);
    EXPECT_THAT(misspelt.err, HasSubstr("Near it: model.model.layers.0"));
}

TEST_F(PlanSummary, SaysWhichElementTypesAMachineNamesNoRateOf) {
    const auto notes_on = [&](const std::string& machine) {
        return run({"plan", example("models/llama-3-8b.onnx"), "--batch", "1", "--bind",
                    "sequence=128", "--machine", machine, "--searcher", "single-device"})
            .err;
    };
    EXPECT_THAT(notes_on("k80-cluster:2"), HasSubstr("names no matrix_flops of bfloat16"));
    // float16 stands in for it.
    EXPECT_THAT(notes_on("dgx-1-v100"), Not(HasSubstr("matrix_flops")));
    EXPECT_THAT(notes_on("dgx-h100"), Not(HasSubstr("matrix_flops")));
}

// People who do without a search are not bound to the micro-batches and the order that are asked of
// the plan.
TEST_F(PlanSummary, SaysWhatIdleTensorCoresWouldGive) {
    const auto said = [&](const char* machine, const char* precision) {
        return run(plan_mlp({"--machine", machine, "--precision", precision})).out;
    };
    EXPECT_THAT(said("dgx-a100", "model"),
                HasSubstr("precision  float32; bfloat16 products are 16 times as fast here: "
                          "--precision bf16"));
    EXPECT_THAT(said("dgx-1-v100", "model"), HasSubstr("--precision fp16"));
    EXPECT_THAT(said("dgx-a100", "bf16"), Not(HasSubstr("precision  ")));
    EXPECT_THAT(said("cpu:2", "model"), Not(HasSubstr("precision  ")));
}

TEST_F(PlanSummary, ComparesWithBaselinesThatCutTheBatchAsTheyLike) {
    const auto plan_with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"plan",      example("models/resnet50.onnx"),
                                              "--batch",   "64",
                                              "--mode",    "training",
                                              "--machine", "dgx-1-v100",
                                              "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return json::parse(result.out);
    };
    const json pipeline =
        plan_with({"--searcher", "expert", "--micro-batches", "8", "--schedule", "1f1b"});
    EXPECT_EQ(pipeline["schedule"], "1f1b");
    const json data_parallel = plan_with({"--searcher", "data-parallel"});
    const auto& baselines = pipeline["baselines"];
    const auto at = std::ranges::find(baselines, "data-parallel",
                                      [](const json& each) { return each["name"]; });
    ASSERT_NE(at, baselines.end());
    EXPECT_EQ((*at)["value_ps"], data_parallel["value_ps"]);
    EXPECT_LT((*at)["value_ps"], pipeline["value_ps"]);
}

TEST_F(PlanSummary, SlowerLinksMakeASlowerDataParallelPlan) {
    const auto value_with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"plan",
                                              example("runnable/encoder-layer/model.onnx"),
                                              "--bind",
                                              "batch=64",
                                              "--bind",
                                              "sequence=128",
                                              "--mode",
                                              "training",
                                              "--machine",
                                              "dgx-h100",
                                              "--searcher",
                                              "data-parallel",
                                              "--micro-batches",
                                              "1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return written_plan();
    };
    const json before = value_with({});
    EXPECT_EQ(value_with({"--scale", "links=1"}), before);
    const json slower = value_with({"--scale", "links=0.01"});
    EXPECT_GT(slower["prediction"]["value_ps"], before["prediction"]["value_ps"]);
    const Outcome unknown = run(plan_mlp({"--set", "net.bandwidth=1GB/s"}));
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("Known are network.bandwidth"));
}

// However many devices there are; --verbose shows more of them.
TEST_F(PlanSummary, FitsAScreen) {
    const auto lines_of = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"plan",          example("models/inception_v3.onnx"),
                                              "--batch",       "64",
                                              "--mode",        "training",
                                              "--searcher",    "random",
                                              "--machine",     "p100-cluster:16x4",
                                              "--evaluations", "20"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_THAT(result.out, HasSubstr("less busy device"));
        return std::ranges::count(result.out, '\n');
    };
    EXPECT_LE(lines_of({}), 40);
    EXPECT_GT(lines_of({"--verbose"}), 40);
}

TEST_F(PlanSummary, SaysWhatThePlanIsAndHowMuchItGetsThrough) {
    const Outcome result =
        run({"plan", example("runnable/encoder-layer/model.onnx"), "--bind", "batch=4", "--bind",
             "sequence=16", "--mode", "training", "--machine", "dgx-a100", "--strategy",
             "dp=2,tp=2,pp=2,vpp=1", "--micro-batches", "2", "--schedule", "1f1b", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json plan = json::parse(result.out);
    EXPECT_EQ(plan["strategy"]["stages"], 2);
    EXPECT_EQ(plan["strategy"]["dp"], 2);
    EXPECT_EQ(plan["strategy"]["tp"], 2);
    EXPECT_EQ(plan["strategy"]["schedule"], "1f1b");
    EXPECT_THAT(plan["strategy"]["lines"][0].get<std::string>(),
                HasSubstr("2 stages, data x 2, tensor x 2 on 8 devices; 2 micro-batches in 1f1b"));
    const double seconds = plan["value_ps"].get<double>() / 1e12;
    EXPECT_NEAR(plan["throughput"]["samples_per_s"].get<double>() * seconds, 4, 1e-6);
    EXPECT_GT(plan["throughput"]["mfu"].get<double>(), 0);
    EXPECT_LT(plan["throughput"]["mfu"].get<double>(), 1);
    bool gradients = false;
    for (const json& moved : plan["communication"]) {
        gradients = gradients || (moved["of"] == "gradients" && moved["kind"] == "all-reduce");
    }
    EXPECT_TRUE(gradients);
}

}  // namespace
}  // namespace partita::tests
