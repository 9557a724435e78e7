// SPDX-License-Identifier: Apache-2.0
//
// Values and extents at which ONNX's inference does not look, and that a kernel must not take as
// they come: it refuses them, whatever is computed in front of it.
#include "runtime/kernels/expected.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "base/error.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/one_op.h"

namespace partita::runtime {
namespace {

using graph::DType;
using graph::Shape;
using testing::HasSubstr;
using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

at::Tensor list(const Integers& values) {
    return integer_tensor(values, {static_cast<std::int64_t>(values.size())});
}

at::Tensor number(std::int64_t value) {
    return integer_tensor({value}, {});
}

at::Tensor real(double value) {
    return at::full({}, value);
}

at::Tensor ones(const Shape& shape) {
    return at::ones(shape);
}

struct Hostile {
    std::string name;
    OneOp op;
    std::string refusal;  ///< a part of it
};

// Numbers in operands come last to first; what is left is how the operator is used.
std::vector<Hostile> hostile_ops() {
    const at::Tensor none = list({});
    const at::Tensor x = ones({2, 3, 4});
    const Shape shape{2, 3, 4};
    const auto slice = [&](const Integers& ends, const Integers& axes, const Integers& steps) {
        return OneOp{"Slice", {x, list({0}), list(ends), list(axes), list(steps)}, {1, 3, 4}};
    };
    const auto normalize = [&](int opset) {
        return OneOp{"BatchNormalization",
                     {x, ones({1}), ones({1}), ones({1}), ones({1})},
                     shape,
                     DType::float32,
                     {},
                     opset};
    };
    const auto mel = [&](std::int64_t mels, double rate, double upper) {
        return OneOp{"MelWeightMatrix",
                     {number(mels), number(16), real(rate), real(0), real(upper)},
                     {9, 8}};
    };
    const auto recurrent = [&](const std::string& type, std::int64_t gates, const Texts& names) {
        return OneOp{type,
                     {ones({1, 1, 2}), ones({1, gates * 2, 2}), ones({1, gates * 2, 2})},
                     {1, 1, 1, 2},
                     DType::float32,
                     {{"hidden_size", std::int64_t{2}}, {"activations", names}}};
    };
    const auto columns = [&](const Integers& block, const Integers& strides) {
        return OneOp{"Col2Im",
                     {ones({1, 4, 4}), list({4, 4}), list(block)},
                     {1, 1, 4, 4},
                     DType::float32,
                     {{"strides", strides}}};
    };
    const auto scale = [&](double by) {
        return OneOp{"Resize",
                     {x, at::Tensor(), at::full({3}, by)},
                     shape,
                     DType::float32,
                     {{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}}};
    };
    const auto crop = [&](const std::string& mode, double begin) {
        return OneOp{"Resize",
                     {x, at::cat({at::full({3}, begin), at::ones({3})}), at::ones({3})},
                     shape,
                     DType::float32,
                     {{"mode", mode},
                      {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}};
    };
    return {
        {"slice without ends", slice({}, {0}, {1}), "operand 2: expected s elements"},
        {"slice of fewer axes", slice({1}, {}, {1}), "operand 3: expected s elements"},
        {"slice by 0", slice({1}, {0}, {0}), "steps: expected none of 0"},
        {"top of nothing", {"TopK", {x, none}, shape}, "operand 1: expected one element, got [0]"},
        {"triangle from nowhere", {"Trilu", {x, none}, shape}, "operand 1: expected one element"},
        {"classes of no depth",
         {"OneHot", {list({1}), none, ones({2})}, {1, 3}},
         "operand 1: expected one element"},
        {"classes without values",
         {"OneHot", {list({1}), number(3), ones({1})}, {1, 3}},
         "operand 2: expected 2 elements"},
        {"sums along no axis", {"CumSum", {x, none}, shape}, "operand 1: expected one element"},
        {"sums along an axis in front",
         {"CumSum", {x, number(-4)}, shape, DType::float32, {{"exclusive", std::int64_t{1}}}},
         "axis: expected a dim of 3, got -4"},
        {"products along an axis behind",
         {"CumProd", {x, number(3)}, shape, DType::float32, {{"exclusive", std::int64_t{1}}}},
         "axis: expected a dim of 3, got 3"},
        {"turned without a partner",
         {"RotaryEmbedding", {ones({1, 2, 3, 1}), ones({1, 3, 1}), ones({1, 3, 1})}, {1, 2, 3, 1}},
         "rotary_embedding_dim: expected pairs"},
        {"few statistics, opset 7", normalize(7), "operand 1: expected c elements"},
        {"few statistics, opset 9", normalize(9), "operand 1: expected c elements"},
        {"flat boxes",
         {"NonMaxSuppression",
          {ones({1, 1'000'000, 1}), ones({1, 1, 1'000'000})},
          {0, 3},
          DType::int64},
         "operand 0: expected extents [b n 4], got [1 1000000 1]"},
        {"boxes without scores",
         {"NonMaxSuppression", {ones({1, 5, 4}), ones({1, 1, 3})}, {0, 3}, DType::int64},
         "operand 1: expected extents [b c n]"},
        {"mels beyond the spectrum", mel(8, 1, 1e12), "operands 3 and 4"},
        {"mels beyond all numbers", mel(std::int64_t{1} << 40U, 8000, 4000), "operands 0 and 1"},
        {"mels of no rate", mel(8, 0, 4000), "operand 2: expected a sample rate > 0"},
        {"narrow regions",
         {"RoiAlign",
          {ones({1, 2, 8, 8}), ones({3, 1}), list({0, 0, 0})},
          {3, 2, 1, 1},
          DType::float32,
          {},
          10},
         "operand 1: expected extents [r 4], got [3 1]"},
        {"giant regions",
         {"RoiAlign",
          {ones({1, 1, 8, 8}), ones({1, 4}) * at::tensor({0., 0., 1e30, 1e30}), list({0})},
          {1, 1, 1, 1}},
         "regions: expected fewer than 2^24 samples"},
        {"few gates of LSTM", recurrent("LSTM", 4, {"Tanh"}), "activations: expected one"},
        {"few gates of GRU", recurrent("GRU", 3, {"Tanh"}), "activations: expected one"},
        {"gates of one direction for two",
         {"LSTM",
          {ones({1, 1, 2}), ones({2, 8, 2}), ones({2, 8, 2})},
          {1, 2, 1, 2},
          DType::float32,
          {{"hidden_size", std::int64_t{2}},
           {"direction", std::string("bidirectional")},
           {"activations", Texts{"Tanh", "Tanh", "Tanh"}}}},
         "activations: expected one"},
        {"scales of a scalar",
         {"DequantizeLinear",
          {at::ones({}, at::kChar), ones({2})},
          {},
          DType::float32,
          {{"axis", std::int64_t{0}}}},
         "operand 1: expected one scale"},
        {"scales of no block",
         {"DequantizeLinear",
          {at::ones({2, 4}, at::kChar), ones({2, 0})},
          {2, 4},
          DType::float32,
          {{"axis", std::int64_t{1}}}},
         "operand 1: expected a scale for each block"},
        {"columns by 0", columns({2, 2}, {0, 1}), "strides: expected steps > 0"},
        {"columns of empty blocks", columns({0, 2}, {1, 1}), "operand 2: expected a block"},
        {"scaled by 0", scale(0), "scales: expected numbers > 0"},
        {"scaled to next to nothing", scale(1e-9), "scales: expected no more than 2^24"},
        {"cropped nowhere", crop("nearest", NAN), "roi, scales: expected coordinates"},
        {"cropped far away", crop("linear", 1e30), "roi, scales: expected coordinates"},
        {"wrapped around nothing",
         {"Pad", {ones({0}), list({1, 1})}, {2}, DType::float32, {{"mode", std::string("wrap")}}},
         "a dim without positions"},
        {"few pads", {"Pad", {x, list({1, 1})}, shape}, "pads: expected a begin and an end"},
        {"frames by 0",
         {"STFT", {ones({1, 16, 1}), number(0), ones({4})}, {1, 4, 3, 2}},
         "operand 1: expected a step > 0"},
    };
}

TEST(ExpectedOperands, AreSaidWhereTheyAreOthers) {
    for (const Hostile& hostile : hostile_ops()) {
        SCOPED_TRACE(hostile.name);
        try {
            (void)result_of(hostile.op);
            ADD_FAILURE() << "no error";
        } catch (const InputError& error) {
            EXPECT_THAT(error.what(), HasSubstr(hostile.refusal));
        }
    }
}

template <class Integer>
void expect_smallest_by_minus_one(at::ScalarType type) {
    const auto smallest = static_cast<std::int64_t>(std::numeric_limits<Integer>::min());
    const at::Tensor a = list({smallest, 7, -7}).to(type);
    const at::Tensor b = list({-1, -1, 2}).to(type);
    const DType dtype = dtype_of(type);
    EXPECT_TRUE(
        at::equal(result_of({"Div", {a, b}, {3}, dtype}), list({smallest, -7, -3}).to(type)));
    EXPECT_TRUE(at::equal(result_of({"Mod", {a, b}, {3}, dtype}), list({0, 0, 1}).to(type)));
    EXPECT_TRUE(at::equal(result_of({"Mod", {a, b}, {3}, dtype, {{"fmod", std::int64_t{1}}}}),
                          list({0, 0, -1}).to(type)));
}

TEST(Kernel, TheSmallestIntegerByMinusOneWrapsAround) {
    expect_smallest_by_minus_one<std::int32_t>(at::kInt);
    expect_smallest_by_minus_one<std::int64_t>(at::kLong);
}

// ATen's fused function divides by the number of queries.
TEST(Kernel, AttentionOfNoQueriesIsEmpty) {
    const at::Tensor none = at::ones({2, 3, 0, 8});
    const at::Tensor keys = at::ones({2, 3, 6, 8});
    EXPECT_EQ(
        result_of({"Attention", {none, keys, keys}, {2, 3, 0, 8}, DType::float32, {}, 23}).sizes(),
        none.sizes());
}

// Of eight triangles up to 1 MHz the first three begin among the nine bins up to 4 kHz.
TEST(Kernel, MelWeightsLieInTheSpectrumAlone) {
    const at::Tensor weights = result_of(
        {"MelWeightMatrix", {number(8), number(16), real(8000), real(0), real(1e6)}, {9, 8}});
    EXPECT_EQ(weights.sizes(), at::IntArrayRef({9, 8}));
    EXPECT_TRUE(weights.ge(0).all().item<bool>() && weights.le(1).all().item<bool>());
    EXPECT_EQ(weights.narrow(1, 3, 5).count_nonzero().item<std::int64_t>(), 0);
}

TEST(KernelTable, OperandsReadOnTheHostSayWhatIsExpected) {
    for (const KernelRow* row : all_kernels()) {
        std::vector<std::string> entries(1);
        for (const char c : row->expects) {
            if (c == ',') entries.emplace_back();
            if (c != ',' && c != ' ') entries.back() += c;
        }
        for (std::size_t i = 0; i < 32; ++i) {
            if (!row->reads_on_host(i)) continue;
            EXPECT_TRUE(i < entries.size() && !entries[i].empty())
                << row->type << ", operand " << i;
        }
    }
}

/// Goes on for as long as integers last.
graph::OpGraph endless_loop() {
    graph::OpGraph body;
    const auto input = [&](const std::string& name, DType dtype) {
        return body.add_source(
            {.name = name, .shape = {}, .dtype = dtype, .role = graph::TensorRole::input});
    };
    input("number", DType::int64);
    const auto condition = input("condition", DType::boolean);
    const auto goes_on = body.add_tensor({.name = "goes_on", .dtype = DType::boolean});
    body.add_op({.name = "a", .type = "Identity", .inputs = {condition}, .outputs = {goes_on}});
    body.add_output("out goes_on", goes_on);
    graph::OpGraph graph =
        graph_of({"Loop", {number(0), at::scalar_tensor(true, at::kBool)}, {0}, DType::int64});
    graph.op(graph::OpId(graph.op_count() - 1))
        .bodies.push_back({"body", std::make_shared<const graph::OpGraph>(std::move(body)), 0});
    return graph;
}

TEST(TimeLimit, EndsALoop) {
    const graph::OpGraph graph = endless_loop();
    const SourceValue no_source = [](const graph::Tensor&) { return at::Tensor(); };
    const Tensors inputs{number(std::numeric_limits<std::int64_t>::max()),
                         at::scalar_tensor(true, at::kBool)};
    const TimeLimit limit(std::chrono::milliseconds(1));
    EXPECT_THROW((void)run_graph(graph, inputs, no_source), std::exception);
}

TEST(TimeLimit, EndsWithTheOutermost) {
    EXPECT_NO_THROW(check_time());
    {
        const TimeLimit over(std::chrono::milliseconds(0));
        EXPECT_THROW(check_time(), std::runtime_error);
        {
            const TimeLimit within(std::chrono::hours(1));
            EXPECT_THROW(check_time(), std::runtime_error);
        }
        EXPECT_THROW(check_time(), std::runtime_error);
    }
    EXPECT_NO_THROW(check_time());
}

}  // namespace
}  // namespace partita::runtime
