// SPDX-License-Identifier: Apache-2.0
//
// A float32 model in 16 bits: which tensors become narrow, and what their source gives.
#include "importers/onnx/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "importers/onnx/literal.h"
#include "tests/importers/onnx_fixtures.h"

namespace partita::importers {
namespace {

using graph::DType;
using graph::OpKind;
using graph::TensorRole;
using testing::HasSubstr;

/// Ops of one result, float32 unless said otherwise.
class GraphMaker {
public:
    graph::TensorId source(const std::string& name, graph::Shape shape, TensorRole role,
                           DType dtype = DType::float32) {
        return graph.add_source(
            {.name = name, .shape = std::move(shape), .dtype = dtype, .role = role});
    }
    graph::TensorId op(const std::string& name, const std::string& type,
                       std::vector<graph::TensorId> inputs, graph::Shape shape,
                       DType dtype = DType::float32, graph::Attributes attributes = {}) {
        graph::Op op;
        op.name = name;
        op.type = type;
        op.opset = 17;
        op.inputs = std::move(inputs);
        op.outputs = {
            graph.add_tensor({.name = name + ".y", .shape = std::move(shape), .dtype = dtype})};
        op.attributes = std::move(attributes);
        const graph::TensorId result = op.outputs[0];
        graph.add_op(std::move(op));
        return result;
    }
    void output(graph::TensorId t) { graph.add_output("out" + std::to_string(t.value), t); }

    graph::OpGraph graph;
};

/// Contents of all tensors.
template <class T>
class Contents final : public graph::TensorSource {
public:
    explicit Contents(std::vector<T> values) : values_(std::move(values)) {}
    void read(const std::string& /*name*/, Bytes offset, std::span<std::byte> out) const override {
        const auto all = std::as_bytes(std::span(values_));
        const auto begin = static_cast<std::size_t>(offset.raw());
        if (begin + out.size() > all.size()) throw InputError("past the end");
        std::copy_n(all.begin() + offset.raw(), out.size(), out.begin());
    }

private:
    std::vector<T> values_;
};

std::string refusal(graph::OpGraph graph, DType to = DType::bfloat16) {
    try {
        static_cast<void>(converted(std::move(graph), nullptr, to, "model.onnx"));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Precision, MakesAllFloatsOfAModelNarrow) {
    OnnxOptions options{.bindings = {{"batch", 2}, {"sequence", 8}}};
    const std::filesystem::path file = kSource / "examples/runnable/encoder-layer/model.onnx";
    const OnnxModel wide = import_onnx(file, options);
    options.precision = DType::bfloat16;
    const OnnxModel narrow = import_onnx(file, options);
    ASSERT_EQ(narrow.graph.tensor_count(), wide.graph.tensor_count());
    int changed = 0;
    for (std::size_t i = 0; i < wide.graph.tensor_count(); ++i) {
        const graph::Tensor& before = wide.graph.tensors()[i];
        const graph::Tensor& after = narrow.graph.tensors()[i];
        EXPECT_EQ(after.shape, before.shape);
        EXPECT_EQ(after.role, before.role);
        const bool real = before.dtype == DType::float32;
        EXPECT_EQ(after.dtype, real ? DType::bfloat16 : before.dtype) << before.name;
        changed += real ? 1 : 0;
    }
    EXPECT_GT(changed, 40);
    EXPECT_NE(graph::digest(narrow.graph), graph::digest(wide.graph));
    EXPECT_THAT(narrow.notes.back(), HasSubstr("tensors are bfloat16 that the file says"));
    for (const graph::Op& op : narrow.graph.ops()) {
        if (op.kind != OpKind::parameter) continue;
        const graph::Tensor& tensor = narrow.graph.tensor(op.outputs[0]);
        const auto elements = static_cast<std::size_t>(tensor.elements());
        std::vector<float> expected(elements);
        wide.source->read(tensor.name, Bytes{0}, std::as_writable_bytes(std::span(expected)));
        std::vector<std::uint16_t> read(elements);
        narrow.source->read(tensor.name, Bytes{0}, std::as_writable_bytes(std::span(read)));
        for (std::size_t i = 0; i < elements; ++i) {
            ASSERT_EQ(bfloat16_to_double(read[i]), round_to(DType::bfloat16, expected[i]));
        }
    }
}

TEST(Precision, SourcesGiveAnyBytes) {
    GraphMaker make;
    const graph::TensorId w = make.source("w", {7}, TensorRole::parameter);
    make.output(make.op("relu", "Relu", {w}, {7}));
    const float lowest = std::numeric_limits<float>::lowest();
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> values = {0.1F, -1.5F, 70'000.0F, lowest, infinity, 1e-9F, 3.0F};
    for (const DType to : {DType::bfloat16, DType::float16}) {
        const Converted narrow =
            converted(make.graph, std::make_unique<Contents<float>>(values), to, "model.onnx");
        std::vector<std::uint16_t> whole(values.size());
        const auto bytes = std::as_writable_bytes(std::span(whole));
        narrow.source->read("w", Bytes{0}, bytes);
        const auto value = [&](std::size_t i) {
            return to == DType::float16 ? half_to_double(whole[i]) : bfloat16_to_double(whole[i]);
        };
        EXPECT_EQ(value(0), round_to(to, 0.1F));
        EXPECT_EQ(value(1), -1.5);
        EXPECT_EQ(value(2), to == DType::float16 ? 65'504.0 : round_to(to, 70'000.0F));
        EXPECT_TRUE(std::isfinite(value(3))) << "a mask times 0 must stay 0";
        EXPECT_LT(value(3), to == DType::float16 ? -65'503.0 : -3.3e38);
        EXPECT_EQ(value(4), infinity);
        EXPECT_EQ(value(6), 3.0);
        for (std::size_t begin = 0; begin < bytes.size(); ++begin) {
            for (std::size_t size = 1; begin + size <= bytes.size(); ++size) {
                std::vector<std::byte> part(size);
                narrow.source->read("w", Bytes(static_cast<std::int64_t>(begin)), part);
                EXPECT_TRUE(std::equal(part.begin(), part.end(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(begin)));
            }
        }
        std::vector<std::byte> more(2);
        EXPECT_THROW(narrow.source->read("w", Bytes{14}, more), InputError);
    }
}

TEST(Precision, WhatIsNarrowBecomesFloat32OrTheOtherTypeOf16Bits) {
    GraphMaker make;
    const graph::TensorId w = make.source("w", {3}, TensorRole::parameter, DType::float16);
    const graph::TensorId y = make.op("relu", "Relu", {w}, {3}, DType::float16);
    graph::Attributes to_float;
    to_float.set("to", std::int64_t{1});
    make.output(make.op("cast", "Cast", {y}, {3}, DType::float32, to_float));
    const std::vector<std::uint16_t> stored = {double_to_half(0.1), double_to_half(-65'504.0),
                                               double_to_half(3.0)};
    const Converted wide = converted(make.graph, std::make_unique<Contents<std::uint16_t>>(stored),
                                     DType::float32, "m.onnx");
    EXPECT_EQ(result(wide.graph, "relu").dtype, DType::float32);
    EXPECT_EQ(wide.note, "2 tensors are float32 that the file says to be float16 (--precision).");
    std::vector<float> read(3);
    wide.source->read("w", Bytes{0}, std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read[0], static_cast<float>(half_to_double(stored[0])));
    EXPECT_EQ(read[1], -65'504.0F);
    std::vector<std::byte> part(5);  // of the second and the third
    wide.source->read("w", Bytes{6}, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), std::as_bytes(std::span(read)).begin() + 6));
    const Converted other = converted(make.graph, std::make_unique<Contents<std::uint16_t>>(stored),
                                      DType::bfloat16, "m.onnx");
    EXPECT_EQ(result(other.graph, "cast").dtype, DType::bfloat16);
    EXPECT_EQ(op(other.graph, "cast").attributes.get_int("to", 0), 16);
    std::vector<std::uint16_t> bits(3);
    other.source->read("w", Bytes{0}, std::as_writable_bytes(std::span(bits)));
    EXPECT_EQ(bfloat16_to_double(bits[0]), round_to(DType::bfloat16, half_to_double(stored[0])));
    const Converted same = converted(wide.graph, nullptr, DType::float32, "m.onnx");
    EXPECT_EQ(same.note, "");
    EXPECT_EQ(graph::digest(same.graph), graph::digest(wide.graph));
}

TEST(Precision, CastsToFloat32BecomeNarrow) {
    GraphMaker make;
    const graph::TensorId ids = make.source("ids", {4}, TensorRole::input, DType::int64);
    graph::Attributes to;
    to.set("to", std::int64_t{1});
    make.output(make.op("cast", "Cast", {ids}, {4}, DType::float32, to));
    graph::Attributes to_int;
    to_int.set("to", std::int64_t{7});
    make.output(make.op("int", "Cast", {ids}, {4}, DType::int64, to_int));
    const Converted narrow = converted(make.graph, nullptr, DType::float16, "model.onnx");
    EXPECT_EQ(op(narrow.graph, "cast").attributes.get_int("to", 0), 10);
    EXPECT_EQ(result(narrow.graph, "cast").dtype, DType::float16);
    EXPECT_EQ(op(narrow.graph, "int").attributes.get_int("to", 0), 7);
    EXPECT_EQ(result(narrow.graph, "ids").dtype, DType::int64);
}

TEST(Precision, ScalesOfResizeStay) {
    GraphMaker make;
    const graph::TensorId x = make.source("x", {1, 1, 2, 2}, TensorRole::input);
    const graph::TensorId scales = make.source("scales", {4}, TensorRole::constant);
    const graph::TensorId big = make.op("resize", "Resize", {x, {}, scales}, {1, 1, 4, 4});
    make.output(big);
    const Converted narrow = converted(make.graph, nullptr, DType::bfloat16, "model.onnx");
    EXPECT_EQ(result(narrow.graph, "x").dtype, DType::bfloat16);
    EXPECT_EQ(result(narrow.graph, "resize").dtype, DType::bfloat16);
    EXPECT_EQ(result(narrow.graph, "scales").dtype, DType::float32);
    make.output(make.op("relu", "Relu", {scales}, {4}));
    EXPECT_EQ(refusal(make.graph),
              "model.onnx: op 'resize': --precision: Resize computes in float32 alone. Leave the "
              "option out, or export the model in bfloat16.");
}

TEST(Precision, RefusesWhatComputesInFloat32Alone) {
    GraphMaker make;
    const graph::TensorId x = make.source("x", {4}, TensorRole::input);
    const graph::TensorId y = make.op("relu", "Relu", {x}, {4});
    const graph::TensorId scale = make.source("scale", {}, TensorRole::constant);
    make.output(make.op("quantize", "QuantizeLinear", {y, scale}, {4}, DType::uint8));
    EXPECT_THAT(refusal(make.graph), HasSubstr("op 'quantize'"));
    GraphMaker loop;
    auto body = std::make_shared<graph::OpGraph>();
    body->add_source({.name = "inner", .shape = {2}, .role = TensorRole::input});
    const graph::TensorId given = loop.source("given", {2}, TensorRole::input);
    graph::Op outer;
    outer.name = "loop";
    outer.type = "Loop";
    outer.inputs = {given};
    outer.outputs = {loop.graph.add_tensor({.name = "r", .shape = {2}})};
    outer.bodies = {{.name = "body", .graph = body}};
    loop.graph.add_op(std::move(outer));
    EXPECT_THAT(refusal(loop.graph), HasSubstr("op 'loop'"));
}

}  // namespace
}  // namespace partita::importers
