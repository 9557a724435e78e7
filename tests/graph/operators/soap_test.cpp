// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/soap.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/operators/op_rule.h"

namespace partita::graph {
namespace {

/// Builds a graph step by step; the first operand of each op is the result of the one before.
class Chain {
public:
    explicit Chain(Shape input) { last_ = source("x", std::move(input), TensorRole::input); }

    Chain& add(const char* type, Shape result, std::vector<Shape> weights = {},
               const Attributes& attributes = {}) {
        Op op{.name = type + std::to_string(graph_.op_count()), .type = type};
        op.attributes = attributes;
        op.inputs.push_back(last_);
        for (Shape& shape : weights) {
            op.inputs.push_back(source("w" + std::to_string(graph_.op_count()), std::move(shape),
                                       TensorRole::parameter));
        }
        last_ = graph_.add_tensor(
            {.name = "t" + std::to_string(graph_.op_count()), .shape = std::move(result)});
        op.outputs.push_back(last_);
        graph_.add_op(std::move(op));
        return *this;
    }

    /// Splittable factors of the last op by class.
    std::map<std::string, std::string> classes(const std::vector<int>& sample_dims = {}) const {
        const std::vector<OpRule> rules = rules_of(graph_);
        const std::vector<TensorOrigin> origins = tensor_origins(graph_, rules, sample_dims);
        const OpId op(graph_.op_count() - 1);
        const OpRule& rule = rules[op.index()];
        const std::vector<SoapClass> classes = soap_classes(graph_, op, rule, origins);
        std::map<std::string, std::string> names;
        for (std::size_t f = 0; f < rule.factors.size(); ++f) {
            if (!rule.factors[f].splittable) continue;
            std::string& list = names[std::string(name_of(classes[f]))];
            list += (list.empty() ? "" : " ") + rule.factors[f].name;
        }
        return names;
    }

    const OpGraph& graph() const { return graph_; }

private:
    TensorId source(std::string name, Shape shape, TensorRole role) {
        return graph_.add_source(
            {.name = std::move(name), .shape = std::move(shape), .role = role});
    }

    OpGraph graph_;
    TensorId last_;
};

using Classes = std::map<std::string, std::string>;

Attributes kernel(std::vector<std::int64_t> shape) {
    Attributes attributes;
    attributes.set("kernel_shape", std::move(shape));
    return attributes;
}

// The table of Jia, Zaharia, Aiken, MLSys 2019 (n = sample, w = length, c = channel, f = channel of
// the result), from the rows alone. Its P_i holds only dims of the result; ours also shows the
// reductions.
TEST(Soap, PublishedTable) {
    EXPECT_EQ(Chain({8, 3, 20}).add("MaxPool", {8, 3, 18}, {}, kernel({3})).classes(),
              (Classes{{"sample", "n"}, {"attribute", "c w"}}));
    EXPECT_EQ(
        Chain({8, 3, 20}).add("Conv", {8, 16, 18}, {{16, 3, 3}, {16}}).classes(),
        (Classes{{"sample", "n"}, {"attribute", "w"}, {"parameter", "f"}, {"reduction", "c"}}));
    EXPECT_EQ(
        Chain({8, 3, 20, 20}).add("Conv", {8, 16, 18, 18}, {{16, 3, 3, 3}}).classes(),
        (Classes{{"sample", "n"}, {"attribute", "h w"}, {"parameter", "f"}, {"reduction", "c"}}));
    EXPECT_EQ(Chain({8, 64}).add("MatMul", {8, 32}, {{64, 32}}).classes(),
              (Classes{{"sample", "m"}, {"parameter", "n"}, {"reduction", "k"}}));
}

// [b s h] -> [(b s) h] -> MatMul -> [b s a d]: the batch is the major digit of the merged dim.
TEST(Soap, BatchSurvivesMergedDims) {
    Chain chain({4, 6, 16});
    chain.add("Reshape", {24, 16});
    EXPECT_EQ(chain.classes(), (Classes{{"sample", "d0"}, {"attribute", "d1 d2"}}));
    chain.add("MatMul", {24, 16}, {{16, 16}});
    EXPECT_EQ(chain.classes(), (Classes{{"sample", "m"}, {"parameter", "n"}, {"reduction", "k"}}));
    chain.add("Reshape", {4, 6, 2, 8});
    EXPECT_EQ(chain.classes(), (Classes{{"sample", "d0"}, {"attribute", "d1 d2 d3"}}));
}

// [s b h] -> [(s b) h] -> [s b h]: here it is the minor digit, and stays it.
TEST(Soap, BatchMayBeTheMinorDigit) {
    Chain chain({6, 4, 16});
    chain.add("Reshape", {24, 16});
    EXPECT_EQ(chain.classes({1}), (Classes{{"sample", "d1"}, {"attribute", "d0 d2"}}));
    chain.add("Relu", {24, 16}).add("Reshape", {6, 4, 16});
    EXPECT_EQ(chain.classes({1}), (Classes{{"sample", "d1"}, {"attribute", "d0 d2"}}));
    chain.add("Transpose", {16, 4, 6});
    EXPECT_EQ(chain.classes({1}), (Classes{{"sample", "d1"}, {"attribute", "d0 d2"}}));
}

// [(b s) h] -> [(b s h)] -> [(b s) h] -> [b s h]: a digit inside of a factor of a merged dim.
TEST(Soap, BatchMayBeInsideOfAFactor) {
    Chain chain({4, 6, 16});
    chain.add("Reshape", {24, 16}).add("Relu", {24, 16}).add("Reshape", {384});
    chain.add("Reshape", {24, 16}).add("Reshape", {4, 6, 16});
    EXPECT_EQ(chain.classes(), (Classes{{"sample", "d0"}, {"attribute", "d1 d2"}}));
}

TEST(Soap, ReducedBatchIsStillTheSample) {
    Attributes attributes;
    attributes.set("axes", std::vector<std::int64_t>{0});
    Chain chain({4, 6});
    chain.add("ReduceSum", {1, 6}, {}, attributes);
    EXPECT_EQ(chain.classes(), (Classes{{"sample", "d0"}, {"attribute", "d1"}}));
    chain.add("Relu", {1, 6});
    EXPECT_EQ(chain.classes(), (Classes{{"attribute", "d0 d1"}}));
}

TEST(Soap, InputsWithoutBatchHaveNoSample) {
    EXPECT_EQ(Chain({4, 6}).add("Relu", {4, 6}).classes({-1}), (Classes{{"attribute", "d0 d1"}}));
}

// The initial state of an LSTM is made of nothing but a shape; its batch is known by its reader.
TEST(Soap, BatchFlowsBackToWhatNoInputReaches) {
    OpGraph graph;
    const TensorId x =
        graph.add_source({.name = "x", .shape = {5, 4, 6}, .role = TensorRole::input});
    const TensorId w =
        graph.add_source({.name = "w", .shape = {1, 16, 6}, .role = TensorRole::parameter});
    const TensorId r =
        graph.add_source({.name = "r", .shape = {1, 16, 4}, .role = TensorRole::parameter});
    const TensorId shape =
        graph.add_source({.name = "s", .shape = {3}, .role = TensorRole::constant});
    const TensorId state = graph.add_tensor({.name = "state", .shape = {1, 4, 4}});
    const OpId zeros = graph.add_op(
        {.name = "zeros", .type = "ConstantOfShape", .inputs = {shape}, .outputs = {state}});
    const TensorId y = graph.add_tensor({.name = "y", .shape = {5, 1, 4, 4}});
    graph.add_op({.name = "lstm",
                  .type = "LSTM",
                  .inputs = {x, w, r, TensorId{}, TensorId{}, state},
                  .outputs = {y}});
    const std::vector<OpRule> rules = rules_of(graph);
    const auto origins = tensor_origins(graph, rules, {1});
    EXPECT_EQ(origins[state.index()].sample_dim, 1);
    EXPECT_EQ(origins[r.index()].sample_dim, -1);
    EXPECT_EQ(soap_classes(graph, zeros, rules[zeros.index()], origins),
              (std::vector{SoapClass::attribute, SoapClass::sample, SoapClass::attribute}));
}

// A weight may be transposed first, as a tied embedding is.
TEST(Soap, WeightsMayBeTransformed) {
    OpGraph graph;
    const TensorId x = graph.add_source({.name = "x", .shape = {8, 64}, .role = TensorRole::input});
    const TensorId w =
        graph.add_source({.name = "w", .shape = {32, 64}, .role = TensorRole::parameter});
    const TensorId t = graph.add_tensor({.name = "t", .shape = {64, 32}});
    graph.add_op({.name = "transpose", .type = "Transpose", .inputs = {w}, .outputs = {t}});
    const TensorId y = graph.add_tensor({.name = "y", .shape = {8, 32}});
    const OpId product =
        graph.add_op({.name = "product", .type = "MatMul", .inputs = {x, t}, .outputs = {y}});
    const std::vector<OpRule> rules = rules_of(graph);
    const auto origins = tensor_origins(graph, rules);
    EXPECT_TRUE(origins[t.index()].weight);
    EXPECT_FALSE(origins[y.index()].weight);
    EXPECT_EQ(soap_classes(graph, product, rules[product.index()], origins),
              (std::vector{SoapClass::sample, SoapClass::parameter, SoapClass::reduction}));
    // The source itself: all its dims are of a weight.
    EXPECT_EQ(soap_classes(graph, OpId(1u), rules[1], origins),
              (std::vector{SoapClass::parameter, SoapClass::parameter}));
    EXPECT_EQ(soap_classes(graph, OpId(0u), rules[0], origins),
              (std::vector{SoapClass::sample, SoapClass::attribute}));
}

}  // namespace
}  // namespace partita::graph
