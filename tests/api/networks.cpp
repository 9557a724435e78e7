// SPDX-License-Identifier: Apache-2.0
#include "tests/api/networks.h"

#include <string>

namespace partita::tests {
namespace {

/// One op with the exporter's name for its result.
Tensor add(Graph& graph, const std::string& name, const std::string& type,
           std::vector<Tensor> operands, Attributes attributes = {}) {
    return graph.add(type, std::move(operands), std::move(attributes),
                     {.name = name, .results = {name + "_output_0"}});
}

Attributes window(int kernel, int pad, int stride, int dilation = 1) {
    return {{"dilations", {dilation, dilation}},
            {"kernel_shape", {kernel, kernel}},
            {"pads", {pad, pad, pad, pad}},
            {"strides", {stride, stride}}};
}

Attributes window_of(int group, Attributes attributes) {
    attributes.emplace_back("group", group);
    return attributes;
}

Tensor batch_normalization(Graph& graph, const std::string& name, const std::string& weights,
                           const Tensor& x, std::int64_t channels) {
    return add(graph, name + "/BatchNormalization", "BatchNormalization",
               {x, graph.parameter(weights + ".weight", {channels}),
                graph.parameter(weights + ".bias", {channels}),
                graph.constant(weights + ".running_mean", {channels}),
                graph.constant(weights + ".running_var", {channels})},
               {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", 0}});
}

}  // namespace

Graph layers(std::int64_t batch, int count) {
    constexpr std::int64_t kSize = 64;
    Graph graph("layers");
    Tensor x = graph.input("x", {batch, kSize});
    for (int i = 0; i < count; ++i) {
        const std::string layer = "layers/" + std::to_string(i);
        Tensor h = graph.add("MatMul", {x, graph.parameter(layer + ".up", {kSize, 4 * kSize})}, {},
                             {.name = layer + "/up"});
        h = graph.add("Relu", {h}, {}, {.name = layer + "/relu"});
        h = graph.add("MatMul", {h, graph.parameter(layer + ".down", {4 * kSize, kSize})}, {},
                      {.name = layer + "/down"});
        x = graph.add("Add", {x, h}, {}, {.name = layer + "/add"});
    }
    graph.output(x);
    return graph;
}

Graph mlp(std::int64_t batch) {
    const Attributes gemm = {{"alpha", 1.0}, {"beta", 1.0}, {"transB", 1}};
    Graph graph("model.onnx", 13);
    auto h = graph.input("x", {batch, 32});
    h = add(graph, "/0/Gemm", "Gemm",
            {h, graph.parameter("0.weight", {128, 32}), graph.parameter("0.bias", {128})}, gemm);
    h = add(graph, "/1/Relu", "Relu", {h});
    h = add(graph, "/2/Gemm", "Gemm",
            {h, graph.parameter("2.weight", {64, 128}), graph.parameter("2.bias", {64})}, gemm);
    h = add(graph, "/3/Tanh", "Tanh", {h});
    h = add(graph, "/4/Gemm", "Gemm",
            {h, graph.parameter("4.weight", {10, 64}), graph.parameter("4.bias", {10})}, gemm);
    graph.output(
        graph.add("Softmax", {h}, {{"axis", 1}}, {.name = "/5/Softmax", .results = {"y"}}));
    return graph;
}

Graph convnet(std::int64_t batch) {
    Graph graph("model.onnx", 17);
    const auto x = graph.input("x", {batch, 3, 32, 32});
    const auto conv = [&graph](const std::string& name, std::vector<Tensor> operands,
                               Attributes attributes) {
        return add(graph, name + "/Conv", "Conv", std::move(operands), std::move(attributes));
    };
    const auto square = [&](const std::string& name, const std::string& weights, const Tensor& h) {
        return conv(name, {h, graph.parameter(weights + ".weight", {16, 16, 3, 3})},
                    window_of(1, window(3, 1, 1)));
    };
    auto stem = conv("/stem/stem.0", {x, graph.parameter("stem.0.weight", {16, 3, 3, 3})},
                     window_of(1, window(3, 1, 2)));
    stem = batch_normalization(graph, "/stem/stem.1", "stem.1", stem, 16);
    stem = add(graph, "/stem/stem.2/Relu", "Relu", {stem});
    auto h = square("/block/block.0", "block.0", stem);
    h = batch_normalization(graph, "/block/block.1", "block.1", h, 16);
    h = square("/block/block.3", "block.3", add(graph, "/block/block.2/Relu", "Relu", {h}));
    h = batch_normalization(graph, "/block/block.4", "block.4", h, 16);
    h = add(graph, "/Relu", "Relu", {add(graph, "/Add", "Add", {h, stem})});
    const auto left = conv(
        "/left",
        {h, graph.parameter("left.weight", {24, 16, 1, 1}), graph.parameter("left.bias", {24})},
        window_of(1, window(1, 0, 1)));
    const auto right = conv(
        "/right",
        {h, graph.parameter("right.weight", {40, 2, 3, 3}), graph.parameter("right.bias", {40})},
        window_of(8, window(3, 2, 1, 2)));
    h = add(graph, "/Concat", "Concat", {left, right}, {{"axis", 1}});
    Attributes pool = window(3, 1, 2);
    pool.emplace_back("ceil_mode", 0);
    h = add(graph, "/pool/MaxPool", "MaxPool", {h}, pool);
    h = add(graph, "/ReduceMean", "ReduceMean", {h}, {{"axes", {2, 3}}, {"keepdims", 0}});
    graph.output(graph.add(
        "Gemm", {h, graph.parameter("head.weight", {10, 64}), graph.parameter("head.bias", {10})},
        {{"alpha", 1.0}, {"beta", 1.0}, {"transB", 1}}, {.name = "/head/Gemm", .results = {"y"}}));
    return graph;
}

}  // namespace partita::tests
