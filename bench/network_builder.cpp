// SPDX-License-Identifier: Apache-2.0
#include "bench/network_builder.h"

#include <cassert>
#include <utility>

#include <fmt/format.h>

namespace partita::bench {

using graph::Attributes;
using graph::Op;
using graph::Shape;
using graph::Tensor;
using graph::TensorId;
using graph::TensorRole;

namespace {

TensorId add_source(graph::OpGraph& graph, std::string name, TensorRole role, Shape shape,
                    graph::DType dtype) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.dtype = dtype;
    return graph.add_source(std::move(tensor));
}

Attributes attributes_of(const Kernel& kernel) {
    Attributes attributes;
    attributes.set("kernel_shape", Shape{kernel.height, kernel.width});
    attributes.set("strides", Shape{kernel.stride, kernel.stride});
    attributes.set("pads", Shape{kernel.rows, kernel.columns, kernel.rows, kernel.columns});
    return attributes;
}

Shape windowed(const Shape& image, std::int64_t channels, const Kernel& kernel) {
    const auto extent = [&](std::int64_t from, std::int64_t size, std::int64_t padding) {
        return (from + 2 * padding - size) / kernel.stride + 1;
    };
    return {image[0], channels, extent(image[2], kernel.height, kernel.rows),
            extent(image[3], kernel.width, kernel.columns)};
}

}  // namespace

Kernel square(std::int64_t size, std::int64_t stride) {
    return {size, size, stride, size / 2, size / 2};
}

Kernel unpadded(std::int64_t size, std::int64_t stride) {
    return {size, size, stride};
}

NetworkBuilder::NetworkBuilder(std::string_view name) {
    graph_.name = name;
}

TensorId NetworkBuilder::image(std::int64_t batch, std::int64_t channels, std::int64_t size) {
    return add_source(graph_, "image", TensorRole::input, {batch, channels, size, size},
                      graph::DType::float32);
}

TensorId NetworkBuilder::words(const std::string& name, std::int64_t batch, std::int64_t steps) {
    return add_source(graph_, name, TensorRole::input, {batch, steps}, graph::DType::int64);
}

TensorId NetworkBuilder::parameter(const std::string& name, Shape shape) {
    return add_source(graph_, name, TensorRole::parameter, std::move(shape), graph::DType::float32);
}

std::vector<TensorId> NetworkBuilder::emit_all(const char* type, std::vector<TensorId> operands,
                                               std::vector<Shape> results, Attributes attributes) {
    Op op;
    op.name = fmt::format("{}_{}", type, count_++);
    op.type = type;
    op.opset = 23;
    op.block = block_;
    op.attributes = std::move(attributes);
    op.inputs = std::move(operands);
    for (Shape& shape : results) {
        Tensor tensor;
        tensor.name = fmt::format("{}.{}", op.name, op.outputs.size());
        tensor.shape = std::move(shape);
        op.outputs.push_back(graph_.add_tensor(std::move(tensor)));
    }
    std::vector<TensorId> made = op.outputs;
    graph_.add_op(std::move(op));
    return made;
}

TensorId NetworkBuilder::emit(const char* type, std::vector<TensorId> operands, Shape result,
                              Attributes attributes) {
    return emit_all(type, std::move(operands), {std::move(result)}, std::move(attributes)).front();
}

TensorId NetworkBuilder::conv(TensorId x, std::int64_t channels, const Kernel& kernel) {
    const TensorId weight = parameter(fmt::format("Conv_{}.weight", count_),
                                      {channels, shape(x)[1], kernel.height, kernel.width});
    const TensorId bias = parameter(fmt::format("Conv_{}.bias", count_), {channels});
    return emit("Conv", {x, weight, bias}, windowed(shape(x), channels, kernel),
                attributes_of(kernel));
}

TensorId NetworkBuilder::pool(const char* type, TensorId x, const Kernel& kernel) {
    return emit(type, {x}, windowed(shape(x), shape(x)[1], kernel), attributes_of(kernel));
}

TensorId NetworkBuilder::pool_globally(TensorId x) {
    return emit("GlobalAveragePool", {x}, {shape(x)[0], shape(x)[1], 1, 1});
}

TensorId NetworkBuilder::concat(std::vector<TensorId> parts, std::int64_t axis) {
    Shape result = shape(parts.front());
    std::int64_t& extent = result[static_cast<std::size_t>(axis)];
    extent = 0;
    for (const TensorId part : parts) extent += shape(part)[static_cast<std::size_t>(axis)];
    Attributes attributes;
    attributes.set("axis", axis);
    return emit("Concat", std::move(parts), std::move(result), std::move(attributes));
}

TensorId NetworkBuilder::add(TensorId a, TensorId b) {
    return emit("Add", {a, b}, shape(a));
}

TensorId NetworkBuilder::flatten(TensorId x) {
    const Shape& from = shape(x);
    return emit("Flatten", {x}, {from[0], from[1] * from[2] * from[3]});
}

TensorId NetworkBuilder::dense(TensorId x, std::int64_t units) {
    const TensorId weight = parameter(fmt::format("Gemm_{}.weight", count_), {units, shape(x)[1]});
    const TensorId bias = parameter(fmt::format("Gemm_{}.bias", count_), {units});
    Attributes attributes;
    attributes.set("transB", std::int64_t{1});
    return emit("Gemm", {x, weight, bias}, {shape(x)[0], units}, std::move(attributes));
}

TensorId NetworkBuilder::embed(TensorId words, TensorId table) {
    return emit("Gather", {table, words}, {shape(words)[0], shape(words)[1], shape(table)[1]});
}

TensorId NetworkBuilder::multiply(TensorId x, TensorId weight) {
    Shape result = shape(x);
    result.back() = shape(weight)[1];
    return emit("MatMul", {x, weight}, std::move(result));
}

TensorId NetworkBuilder::attend(TensorId queries, TensorId keys) {
    Attributes attributes;
    attributes.set("q_num_heads", std::int64_t{1});
    attributes.set("kv_num_heads", std::int64_t{1});
    return emit("Attention", {queries, keys, keys}, shape(queries), std::move(attributes));
}

LstmWeights NetworkBuilder::lstm_weights(const std::string& name, std::int64_t from,
                                         std::int64_t units) {
    return {.input = parameter(name + ".W", {1, 4 * units, from}),
            .recurrent = parameter(name + ".R", {1, 4 * units, units}),
            .bias = parameter(name + ".B", {1, 8 * units})};
}

std::vector<TensorId> NetworkBuilder::emit_lstm(TensorId x, const LstmWeights& weights,
                                                const LstmState& state) {
    const std::int64_t batch = shape(x)[0];
    const std::int64_t units = shape(weights.recurrent)[2];
    Attributes attributes;
    attributes.set("hidden_size", units);
    attributes.set("layout", std::int64_t{1});
    const TensorId no_lengths;
    return emit_all(
        "LSTM",
        {x, weights.input, weights.recurrent, weights.bias, no_lengths, state.hidden, state.cell},
        {{batch, shape(x)[1], 1, units}, {batch, 1, units}, {batch, 1, units}},
        std::move(attributes));
}

LstmState NetworkBuilder::lstm_step(TensorId x, const LstmWeights& weights,
                                    const LstmState& state) {
    const std::vector<TensorId> made = emit_lstm(x, weights, state);
    return {.hidden = made[1], .cell = made[2]};
}

TensorId NetworkBuilder::lstm_steps(TensorId x, const LstmWeights& weights, LstmState& state) {
    const std::vector<TensorId> made = emit_lstm(x, weights, state);
    state = {.hidden = made[1], .cell = made[2]};
    const Shape from = shape(made[0]);
    Tensor axes;
    axes.name = fmt::format("axes_{}", count_);
    axes.shape = {1};
    axes.dtype = graph::DType::int64;
    axes.role = TensorRole::constant;
    axes.known_integers = Shape{2};
    const TensorId direction = graph_.add_source(std::move(axes));
    return emit("Squeeze", {made[0], direction}, {from[0], from[1], from[3]});
}

void NetworkBuilder::output(TensorId tensor) {
    graph_.add_output(fmt::format("output_{}", outputs_++), tensor);
}

graph::OpGraph NetworkBuilder::finish(TensorId result) {
    output(result);
    return finish();
}

}  // namespace partita::bench
