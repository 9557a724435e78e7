// SPDX-License-Identifier: Apache-2.0
//
// Every kernel on a device that is no CPU (kernel_audit.h): all ops of the ONNX conformance node
// tests that the CPU passes, of the runnable models, and of a few operators that these leave out.
//
//     pretend GPU  on any machine; also: nothing waits for the device but what is listed here
//     cuda:0      where there is a GPU; otherwise its one test says that it is skipped
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/fusion/block_attention.h"
#include "graph/fusion/fuse.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/kernel_audit.h"
#include "tests/runtime/node_test.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"
#include "tests/support/paths.h"

namespace partita::runtime {
namespace {

using graph::DType;
using graph::OpGraph;
using graph::Shape;
using Integers = std::vector<std::int64_t>;

/// Kernels that cannot go on before they have elements of what the device computes.
struct Waiting {
    std::string_view what;
    std::string_view reason;
};
constexpr std::array kWaiting = {
    Waiting{"Compress", "how many are taken"},
    Waiting{"CumProd backward", "autograd's, which asks whether an element is 0"},
    Waiting{"DynamicQuantizeLinear backward", "autograd's of a minimum; on CUDA it does not"},
    Waiting{"Loop", "a body that slices by the number of its iteration"},
    Waiting{"NonZero", "how many there are"},
    Waiting{"ReduceProd backward", "autograd's, which asks whether an element is 0"},
    Waiting{"Unique", "how many there are"},
};

// --- operators and types that the node tests leave out ------------------------------------------

struct DeviceExample {
    std::string type;
    Tensors operands;
    Shape result;
    DType dtype = DType::float32;
    std::vector<std::pair<std::string, graph::AttributeValue>> attributes = {};
    int opset = 22;
};

OpGraph device_graph_of(const DeviceExample& example) {
    OpGraph graph;
    graph::Op op{.name = "op", .type = example.type, .opset = example.opset};
    for (const at::Tensor& operand : example.operands) {
        op.inputs.push_back(graph.add_source({.name = "x" + std::to_string(op.inputs.size()),
                                              .shape = operand.sizes().vec(),
                                              .dtype = dtype_of(operand.scalar_type()),
                                              .role = graph::TensorRole::input}));
    }
    op.outputs.push_back(
        graph.add_tensor({.name = "y", .shape = example.result, .dtype = example.dtype}));
    for (const auto& [name, value] : example.attributes) op.attributes.set(name, value);
    graph.add_op(std::move(op));
    return graph;
}

std::vector<DeviceExample> device_examples() {
    const at::Tensor x = at::rand({1, 2, 4, 6});
    const at::Tensor rows = at::rand({3, 5});
    const at::Tensor a = at::arange(6, at::kInt).reshape({2, 3});
    const at::Tensor b = at::arange(12, at::kInt).reshape({3, 4});
    const at::Tensor half = at::rand({2, 3, 4}).to(at::kHalf);
    const at::Tensor channels = at::rand({3}).to(at::kHalf);
    const at::Tensor region = at::tensor({0.0F, 0.0F, 0.0F, 3.0F, 3.0F}).reshape({1, 5});
    return {
        {"BatchNormalization",
         {half, channels, channels, channels, channels},
         {2, 3, 4},
         DType::float16,
         {{"training_mode", std::int64_t{1}}}},
        {"Bernoulli", {rows}, {3, 5}},
        {"Dropout",
         {rows, at::scalar_tensor(0.25, at::kFloat), at::scalar_tensor(true, at::kBool)},
         {3, 5}},
        {"Einsum", {a, b}, {2, 4}, DType::int32, {{"equation", std::string("ij,jk->ik")}}},
        {"Gemm", {a, b, a.narrow(1, 0, 1)}, {2, 4}, DType::int32, {{"alpha", 2.5}}},
        {"Gemm", {a, b}, {2, 4}, DType::int32},
        {"GlobalLpPool", {x}, {1, 2, 1, 1}},
        {"MatMul", {a, b}, {2, 4}, DType::int32},
        {"MaxRoiPool",
         {x, region},
         {1, 2, 2, 2},
         DType::float32,
         {{"pooled_shape", Integers{2, 2}}}},
        {"Multinomial", {rows}, {3, 4}, DType::int32, {{"sample_size", std::int64_t{4}}}},
        {"RandomNormal", {}, {3, 5}, DType::float32, {{"shape", Integers{3, 5}}}},
        {"RandomNormalLike", {rows}, {3, 5}},
        {"RandomUniform", {}, {3, 5}, DType::float32, {{"shape", Integers{3, 5}}}},
        {"RandomUniformLike", {rows}, {3, 5}},
        {"Size", {rows}, {}, DType::int64},
    };
}

/// Stacks the numbers of its iterations, and goes on as long as it is told to.
OpGraph counting_loop(std::int64_t most) {
    OpGraph body;
    const auto number = body.add_source(
        {.name = "number", .shape = {}, .dtype = DType::int64, .role = graph::TensorRole::input});
    const auto condition = body.add_source({.name = "condition",
                                            .shape = {},
                                            .dtype = DType::boolean,
                                            .role = graph::TensorRole::input});
    const auto goes_on = body.add_tensor({.name = "goes_on", .dtype = DType::boolean});
    const auto shown = body.add_tensor({.name = "shown", .dtype = DType::int64});
    body.add_op({.name = "a", .type = "Identity", .inputs = {condition}, .outputs = {goes_on}});
    body.add_op({.name = "b", .type = "Abs", .inputs = {number}, .outputs = {shown}});
    body.add_output("out goes_on", goes_on);
    body.add_output("out shown", shown);
    OpGraph graph =
        device_graph_of({"Loop",
                         {at::scalar_tensor(0, at::kLong), at::scalar_tensor(true, at::kBool)},
                         {most},
                         DType::int64});
    graph.op(graph::OpId(graph.op_count() - 1))
        .bodies.push_back({"body", std::make_shared<const OpGraph>(std::move(body)), 0});
    return graph;
}

// --- all of them --------------------------------------------------------------------------------

const SourceValue kNoValues = [](const graph::Tensor&) { return at::Tensor(); };

void audit_data_set(KernelAudit& audit, const std::filesystem::path& folder) {
    const DataSet data = read_data_set(folder);
    audit.run(
        data.model.graph, data.inputs,
        [&](const graph::Tensor& tensor) { return data.source(tensor); }, folder.filename());
}

std::vector<std::filesystem::path> passed_node_tests() {
    std::vector<std::filesystem::path> passed;
    for (const auto& folder : node_test_folders()) {
        if (run_node_test(folder).outcome == Outcome::passed) passed.push_back(folder);
    }
    return passed;
}

void audit_all(KernelAudit& audit) {
    const auto folders = passed_node_tests();
    ASSERT_FALSE(folders.empty()) << "no conformance node tests in " << tests::node_tests()
                                  << "; run scripts/setup";
    for (const auto& folder : folders) audit_data_set(audit, folder);
    const auto runnable = tests::repository() / "examples" / "runnable";
    for (const auto& entry : std::filesystem::directory_iterator(runnable)) {
        if (entry.is_directory()) audit_data_set(audit, entry.path());
    }
    at::manual_seed(1);
    for (const DeviceExample& each : device_examples()) {
        audit.run(device_graph_of(each), each.operands, kNoValues, "the examples");
    }
    for (const std::int64_t trips : {0, 3}) {
        audit.run(counting_loop(3),
                  Tensors{at::scalar_tensor(trips, at::kLong), at::scalar_tensor(true, at::kBool)},
                  kNoValues, std::to_string(trips) + " trips");
    }
    const DataSet encoder = read_data_set(runnable / "encoder-layer");
    audit.run(
        graph::fused(encoder.model.graph, {"bias-gelu", "linear"}, "encoder-layer", {}).graph,
        encoder.inputs, [&](const graph::Tensor& tensor) { return encoder.source(tensor); },
        "encoder-layer, fused");
    const at::Tensor heads = at::rand({1, 2, 4, 6});
    const DeviceExample attention{"Attention",
                                  {heads, heads, heads},
                                  {1, 2, 4, 6},
                                  DType::float32,
                                  {{"is_causal", std::int64_t{1}}}};
    audit.run(graph::with_block_attention(device_graph_of(attention), 2).graph, attention.operands,
              kNoValues, "keys in blocks");
    const DeviceExample drops{
        "Attention", {heads, heads, heads}, {1, 2, 4, 6}, DType::float32, {{"dropout_ratio", 0.5}}};
    audit.run(device_graph_of(drops), drops.operands, kNoValues, "some scores dropped");
    audit.run(graph::with_block_attention(device_graph_of(drops), 2).graph, drops.operands,
              kNoValues, "keys in blocks, some scores dropped");
    for (const KernelRow* const row : all_kernels()) {
        EXPECT_TRUE(audit.types().contains(std::string(row->type)))
            << row->type << " did not run: give it an example here";
    }
}

TEST(KernelDevice, APretendGpuGivesWhatTheCpuGives) {
    KernelAudit audit(pretend_gpu());
    audit_all(audit);
    auto waits = audit.waits();
    for (const Waiting& each : kWaiting) {
        EXPECT_EQ(waits.erase(std::string(each.what)), 1)
            << each.what << " does not wait any more: take it off the list";
    }
    for (const auto& [what, operators] : waits) {
        ADD_FAILURE() << what << " waits for the device: " << operators;
    }
    EXPECT_GT(audit.backwards(), 2'000);
}

// Whole graphs, where operands that are read on the host may be computed on the device.
TEST(KernelDevice, APretendGpuPassesTheNodeTestsOfTheCpu) {
    for (const auto& folder : passed_node_tests()) {
        EXPECT_EQ(run_node_test(folder, pretend_gpu()).reason, "") << folder.filename();
    }
}

TEST(KernelsOnCuda, GiveWhatTheCpuGives) {
    if (cuda_gpus() == 0) GTEST_SKIP() << "there is no GPU that LibTorch can use";
    at::globalContext().setAllowTF32CuDNN(false);
    const at::Device gpu(at::kCUDA, 0);
    KernelAudit audit(gpu);
    audit_all(audit);
    for (const auto& folder : passed_node_tests()) {
        EXPECT_EQ(run_node_test(folder, gpu).reason, "") << folder.filename();
    }
}

}  // namespace
}  // namespace partita::runtime
