// SPDX-License-Identifier: Apache-2.0
#include "bench/generators.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <iterator>
#include <utility>

#include "search/support/random.h"

namespace partita::bench {

using graph::TensorId;

namespace {

constexpr int kSteps = 28;
constexpr std::int64_t kPixels = 28;
constexpr std::int64_t kClasses = 10;

struct State {
    TensorId cell;
    TensorId hidden;
};

State lstm_step(TrainingTape& tape, TensorId row, State state, TensorId kernel, TensorId bias) {
    const TensorId joined = tape.concat(row, state.hidden);
    const TensorId sums = tape.add(tape.matmul(joined, kernel), bias);
    const auto gates = tape.split(sums, 4);  // input, candidate, forget, output
    const TensorId kept = tape.multiply(state.cell, tape.unary("Sigmoid", gates[2]));
    const TensorId fresh =
        tape.multiply(tape.unary("Sigmoid", gates[0]), tape.unary("Tanh", gates[1]));
    const TensorId cell = tape.add(kept, fresh);
    const TensorId hidden =
        tape.multiply(tape.unary("Tanh", cell), tape.unary("Sigmoid", gates[3]));
    return {cell, hidden};
}

TensorId dense(TrainingTape& tape, TensorId x, std::string_view name, std::int64_t from,
               std::int64_t to) {
    const TensorId w = tape.variable(fmt::format("{}.w", name), {from, to});
    const TensorId b = tape.variable(fmt::format("{}.b", name), {to});
    return tape.add(tape.matmul(x, w), b);
}

TensorId conv_layer(TrainingTape& tape, TensorId x, std::string_view name, std::int64_t from,
                    std::int64_t to) {
    const TensorId w = tape.variable(fmt::format("{}.w", name), {to, from, 5, 5});
    const TensorId b = tape.variable(fmt::format("{}.b", name), {to, 1, 1});
    const TensorId sums = tape.add_channel_bias(tape.convolve(x, w), b);
    return tape.max_pool(tape.unary("Relu", sums));
}

}  // namespace

GeneratedModel conv_net(std::int64_t batch) {
    TrainingTape tape("conv net");
    const TensorId x = tape.input("images", {batch, 1, kPixels, kPixels});
    const TensorId first = conv_layer(tape, x, "conv1", 1, 32);
    const TensorId second = conv_layer(tape, first, "conv2", 32, 64);
    const TensorId flat = tape.flatten(second);
    const TensorId wide =
        tape.unary("Relu", dense(tape, flat, "fc1", std::int64_t{7} * 7 * 64, 1024));
    return tape.finish(dense(tape, wide, "fc2", 1024, kClasses));
}

GeneratedModel lstm(std::int64_t batch, std::int64_t hidden, bool length_masks) {
    TrainingTape tape(length_masks ? "dynamic RNN" : "RNN");
    const TensorId kernel = tape.variable("kernel", {kPixels + hidden, 4 * hidden});
    const TensorId bias = tape.variable("bias", {4 * hidden});
    State state{tape.input("cell0", {batch, hidden}), tape.input("hidden0", {batch, hidden})};
    for (int step = 0; step < kSteps; ++step) {
        const TensorId row = tape.input(fmt::format("row{}", step), {batch, kPixels});
        State next = lstm_step(tape, row, state, kernel, bias);
        if (length_masks) {
            const TensorId mask = tape.input(fmt::format("mask{}", step), {batch, 1});
            next.cell = tape.select(mask, next.cell, state.cell);
            next.hidden = tape.select(mask, next.hidden, state.hidden);
        }
        state = next;
    }
    return tape.finish(dense(tape, state.hidden, "out", hidden, kClasses));
}

std::string large_onnx_model(int nodes) {
    constexpr int kTowers = 16;
    constexpr int kWidth = 256;
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name("large");
    const auto declare = [](onnx::ValueInfoProto& value, const std::string& name) {
        value.set_name(name);
        onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
        type.set_elem_type(onnx::TensorProto::FLOAT);
        type.mutable_shape()->add_dim()->set_dim_param("batch");
        type.mutable_shape()->add_dim()->set_dim_value(kWidth);
    };
    const auto weight = [&](const std::string& name, const std::vector<std::int64_t>& dims) {
        onnx::TensorProto& tensor = *graph.add_initializer();
        tensor.set_name(name);
        tensor.set_data_type(onnx::TensorProto::FLOAT);
        for (const std::int64_t dim : dims) tensor.add_dims(dim);
        tensor.set_data_location(onnx::TensorProto::EXTERNAL);
        onnx::StringStringEntryProto& location = *tensor.add_external_data();
        location.set_key("location");
        location.set_value("large.weights");
        return name;
    };
    const auto node = [&](const char* type, const std::vector<std::string>& operands,
                          const std::string& name) {
        onnx::NodeProto& made = *graph.add_node();
        made.set_op_type(type);
        made.set_name(name);
        for (const std::string& operand : operands) made.add_input(operand);
        made.add_output(name + ".y");
        return name + ".y";
    };
    declare(*graph.add_input(), "x");
    std::vector<std::string> towers(kTowers, "x");
    for (int layer = 0; graph.node_size() + 4 + kTowers <= nodes; ++layer) {
        std::string& value = towers[static_cast<std::size_t>(layer % kTowers)];
        const std::string name = fmt::format("/tower{}/layer{}", layer % kTowers, layer / kTowers);
        const std::string w = weight(name + ".w", {kWidth, kWidth});
        const std::string b = weight(name + ".b", {kWidth});
        const std::string product = node("MatMul", {value, w}, name + "/MatMul");
        const std::string sum = node("Add", {product, b}, name + "/Bias");
        const std::string active = node("Relu", {sum}, name + "/Relu");
        value = node("Add", {value, active}, name + "/Residual");
    }
    std::string sum = towers[0];
    for (int i = 1; i < kTowers; ++i) {
        sum = node("Add", {sum, towers[static_cast<std::size_t>(i)]}, fmt::format("/sum{}", i));
    }
    declare(*graph.add_output(), sum);
    return model.SerializeAsString();
}

std::string large_workload_json(int nodes, std::uint64_t seed) {
    constexpr int kChains = 64;
    search::Random random(seed);
    std::string text =
        "{\"maxSizePerFPGA\": 17179869184, \"maxFPGAs\": 8, \"maxCPUs\": 1, \"nodes\": [";
    auto out = std::back_inserter(text);
    for (int i = 0; i < nodes; ++i) {
        const auto time = static_cast<double>(1 + random.below(100)) / 1000;
        fmt::format_to(out,
                       "{}{{\"id\": {}, \"supportedOnFpga\": true, \"cpuLatency\": {}, "
                       "\"fpgaLatency\": {}, \"isBackwardNode\": false, \"size\": {}}}",
                       i > 0 ? ",\n" : "", i, 10 * time, time, random.below(1'000'000));
    }
    text += "], \"edges\": [";
    // All edges out of a node must cost the same.
    std::vector<double> cost;
    for (int i = 0; i < nodes; ++i) {
        cost.push_back(static_cast<double>(random.below(50)) / 1000);
    }
    const auto edge = [&](int from, int to, bool first) {
        fmt::format_to(out, "{}{{\"sourceId\": {}, \"destId\": {}, \"cost\": {}}}",
                       first ? "" : ",\n", from, to, cost[static_cast<std::size_t>(from)]);
    };
    for (int i = kChains; i < nodes; ++i) {
        edge(i - kChains, i, i == kChains);
        if (random.below(8) != 0) continue;
        const int back = 1 + static_cast<int>(random.below(kChains - 1));
        edge(i - back, i, false);
    }
    return text + "]}";
}

}  // namespace partita::bench
