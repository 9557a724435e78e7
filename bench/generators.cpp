// SPDX-License-Identifier: Apache-2.0
#include "bench/generators.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "search/random.h"

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
    const TensorId wide = tape.unary("Relu", dense(tape, flat, "fc1", 7 * 7 * 64, 1024));
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
