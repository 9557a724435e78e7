// SPDX-License-Identifier: Apache-2.0
//
// Convolutions. With g groups, c input channels and f result channels per group:
//
//     Conv           "n (g c) h w, (g f) c . ., (g f) -> n (g f) h w"     h and w of X windowed
//     ConvTranspose  "n (g c) h w, (g c) f . ., (g f) -> n (g f) h w"     windowed with a divisor
#include "graph/operators/op_rules.h"
#include "graph/operators/op_windows.h"

namespace partita::graph {

namespace {

/// Where the operands of a convolution stand; -1 = it has none.
struct ConvOperands {
    int data = 0;
    int weight = 1;
    int bias = 2;
    std::vector<int> channel_parameters;  ///< scales and zero points: scalar or [(g f)]
};

ConvOperands conv_operands(std::string_view type) {
    if (type == "ConvInteger") return {.bias = -1, .channel_parameters = {3}};
    if (type == "QLinearConv") return {.weight = 3, .bias = 8, .channel_parameters = {4, 5}};
    if (type == "DeformConv") return {.bias = 3, .channel_parameters = {}};
    return {};
}

/// Factors shared by all convolutions. Without groups there is no factor g.
struct ConvFactors {
    int n, f, c;
    std::vector<int> group;  ///< empty or {g}
    std::vector<int> spatial;

    [[nodiscard]] std::vector<int> grouped(int channel) const {
        std::vector<int> factors = group;
        factors.push_back(channel);
        return factors;
    }
};

std::int64_t group_count(RuleBuilder& b, std::int64_t channels) {
    const std::int64_t groups = b.op().attributes.get_int("group", 1);
    if (groups < 1 || channels % groups != 0) {
        b.fail("attribute 'group': expected a divisor of the number of channels, got " +
               std::to_string(groups));
    }
    return groups;
}

/// `transposed`: the weight is [(g c) f . .] instead of [(g f) c . .].
ConvFactors add_conv_factors(RuleBuilder& b, const ConvOperands& operands, bool transposed) {
    const int rank = b.rank(operands.data);
    if (rank < 3) b.fail("operand 0: expected 3 dims or more");
    b.expect_rank(operands.weight, rank);
    b.expect_result_rank(0, rank);
    const Shape& data = b.shape(operands.data);
    const Shape& weight = b.shape(operands.weight);
    const std::int64_t groups = group_count(b, transposed ? data[1] : weight[0]);

    ConvFactors factors{};
    factors.n = b.add("n", data[0]);
    if (groups > 1) factors.group = {b.add("g", groups)};
    factors.f = b.add("f", transposed ? weight[1] : weight[0] / groups);
    for (int i = 0; i < rank - 2; ++i) {
        factors.spatial.push_back(
            b.add(spatial_name(i, rank - 2), b.result_shape(0)[std::size_t(i) + 2]));
    }
    factors.c = b.add("c", transposed ? data[1] / groups : weight[1]);

    b.operand(operands.data, 0, {factors.n});
    b.operand(operands.data, 1, factors.grouped(factors.c));
    b.operand(operands.weight, 0, factors.grouped(transposed ? factors.c : factors.f));
    b.operand(operands.weight, 1, {transposed ? factors.f : factors.c});
    b.result(0, 0, {factors.n});
    b.result(0, 1, factors.grouped(factors.f));
    for (int i = 0; i < rank - 2; ++i) b.result(0, i + 2, {factors.spatial[std::size_t(i)]});
    if (operands.bias >= 0 && b.has_operand(operands.bias)) {
        b.operand(operands.bias, 0, factors.grouped(factors.f));
        b.operand(operands.bias).apply_once = true;
    }
    for (const int i : operands.channel_parameters) {
        if (b.rank(i) == 1) b.operand(i, 0, factors.grouped(factors.f));
    }
    return factors;
}

/// Two per multiply-add: every element of `points` meets the weight of its group.
Flops conv_flops(const Shape& points, const Shape& weight, std::int64_t channels_per_point) {
    Flops flops(2);
    for (const std::int64_t extent : points) flops = extent * flops;
    for (std::size_t i = 2; i < weight.size(); ++i) flops = weight[i] * flops;
    return channels_per_point * flops;
}

}  // namespace

OpRule conv_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const ConvOperands operands = conv_operands(op.type);
    const ConvFactors factors = add_conv_factors(b, operands, /*transposed=*/false);
    const Shape& weight = b.shape(operands.weight);
    const Shape kernel(weight.begin() + 2, weight.end());
    set_windows(b, operands.data, factors.spatial, window_attributes(b, kernel));
    b.set_flops(conv_flops(b.result_shape(0), weight, weight[1]));
    return b.finish();
}

OpRule conv_transpose_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const ConvOperands operands = conv_operands(op.type);
    const ConvFactors factors = add_conv_factors(b, operands, /*transposed=*/true);
    const Shape& weight = b.shape(operands.weight);
    const Shape kernel(weight.begin() + 2, weight.end());
    set_transposed_windows(b, operands.data, factors.spatial, window_attributes(b, kernel));
    b.set_flops(conv_flops(b.shape(operands.data), weight, weight[1]));
    return b.finish();
}

// X is sampled wherever the offsets point, so its spatial dims are read whole. Offsets count from
// i*stride - pad, which the attributes of a part that begins at i > 0 cannot say: h and w stay
// whole.
OpRule deform_conv_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const ConvOperands operands = conv_operands(op.type);
    const ConvFactors factors = add_conv_factors(b, operands, /*transposed=*/false);
    constexpr int kOffset = 2;
    constexpr int kMask = 4;
    for (const int operand : {kOffset, kMask}) {
        if (b.has_operand(operand)) b.expect_rank(operand, b.rank(operands.data));
        b.operand(operand, 0, {factors.n});
        for (int i = 2; i < b.rank(operand); ++i) {
            b.operand(operand, i, {factors.spatial[std::size_t(i - 2)]});
        }
    }
    const Shape& weight = b.shape(operands.weight);
    b.set_flops(conv_flops(b.result_shape(0), weight, weight[1]));
    // Offsets are per offset group of input channels, which a part of c or g would have to cut.
    b.factor(factors.c).splittable = false;
    for (const int spatial : factors.spatial) b.factor(spatial).splittable = false;
    for (const int g : factors.group) b.factor(g).splittable = false;
    return b.finish();
}

// Depthwise over time: "b c l, c . ., c, b c . -> b c l, b c .", l whole: the state runs through
// it.
OpRule causal_conv_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, 3);
    b.expect_rank(1, 3);
    const int n = b.add("n", b.shape(0)[0]);
    const int c = b.add("c", b.shape(0)[1]);
    const int l = b.add("l", b.shape(0)[2], /*splittable=*/false);
    const std::vector<std::vector<int>> data{{n}, {c}, {l}};
    for (int dim = 0; dim < 3; ++dim) {
        b.operand(0, dim, data[std::size_t(dim)]);
        b.result(0, dim, data[std::size_t(dim)]);
    }
    b.operand(1, 0, {c});
    if (b.has_operand(2)) b.operand(2, 0, {c});
    if (b.has_operand(3)) {
        b.operand(3, 0, {n});
        b.operand(3, 1, {c});
    }
    if (b.has_result(1)) {
        b.result(1, 0, {n});
        b.result(1, 1, {c});
    }
    b.set_flops(conv_flops(b.shape(0), b.shape(1), 1));
    return b.finish();
}

}  // namespace partita::graph
