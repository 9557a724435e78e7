// SPDX-License-Identifier: Apache-2.0
//
// Layouts by hand, and the duality of values and gradients between random ones.
#include "plan/layout/layout.h"
#include "plan/layout/reshard_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/layout/reshard_execution.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::Combine;
using graph::Shape;
using search::Random;

/// y[m n] = x[m k] w[k n] with extents 4, 4, 4.
graph::OpRule product_rule() {
    const auto tensor = [](int first, int second) {
        return graph::TensorRule{.dims = {{.factors = {first}, .window = std::nullopt},
                                          {.factors = {second}, .window = std::nullopt}},
                                 .linear = true};
    };
    graph::OpRule rule;
    rule.factors = {{.name = "m", .extent = 4},
                    {.name = "n", .extent = 4},
                    {.name = "k", .extent = 4, .reduction = true, .combine = Combine::sum}};
    rule.operands = {tensor(0, 2), tensor(2, 1)};
    rule.results = {tensor(0, 1)};
    return rule;
}

std::string text_of(const graph::OpRule& rule, const AxisNames& axes, Side side,
                    std::size_t index) {
    int count = 1;
    for (const PlannedAxis& axis : axes) count *= axis.degree;
    const OpConfig config{axes_named(rule, axes), DeviceSet::progression(0, count, 1)};
    RegionTable regions;
    const Parts parts(rule, config, graph::whole_box(rule));
    return text_of(layout_of(rule, parts, config.devices, side, index, {4, 4}, regions), regions);
}

// RULES.md 1: which of four devices are equal depends on the order of the axes.
TEST(Layout, KnowsTheOrderOfItsAxes) {
    const graph::OpRule rule = product_rule();
    EXPECT_EQ(text_of(rule, {{"m", 2}, {"*", 2}}, Side::result, 0),
              "whole of 1"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [0-1 | 0-3] +0"
              "\n  device 2: [2-3 | 0-3] +0\n  device 3: [2-3 | 0-3] +0");
    EXPECT_EQ(text_of(rule, {{"*", 2}, {"m", 2}}, Side::result, 0),
              "whole of 1"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [2-3 | 0-3] +0"
              "\n  device 2: [0-1 | 0-3] +0\n  device 3: [2-3 | 0-3] +0");
}

TEST(Layout, OfBlocksIsStrided) {
    EXPECT_EQ(text_of(product_rule(), {{"n/2", 2}}, Side::result, 0),
              "whole of 1"
              "\n  device 0: [0-3 | 0 2] +0\n  device 1: [0-3 | 1 3] +0");
}

// RULES.md 2: (b s) = 3 x 3 in 2 by b is 6 | 3, as one dim of 9 it is 5 | 4: not the same layout,
// and between them go elements 5.
TEST(Layout, OfAMergedDimIsNotThatOfOneDim) {
    const auto rule_of = [](const std::vector<std::int64_t>& extents) {
        graph::OpRule rule;
        graph::DimRule dim;
        for (const std::int64_t extent : extents) {
            dim.factors.push_back(static_cast<int>(rule.factors.size()));
            rule.factors.push_back(
                {.name = std::string(1, static_cast<char>('a' + dim.factors.back())),
                 .extent = extent});
        }
        rule.results = {{.dims = {dim}}};
        return rule;
    };
    const SplitOp merged{rule_of({3, 3}), {{Axis::along(0, 2)}, DeviceSet::progression(0, 2, 1)}};
    const SplitOp single{rule_of({9}), {{Axis::along(0, 2)}, DeviceSet::progression(0, 2, 1)}};
    RegionTable regions;
    const Layout from = layout_of(merged, Side::result, {9}, regions);
    const Layout to = layout_of(single, Side::result, {9}, regions);
    EXPECT_EQ(text_of(from, regions), "whole of 1\n  device 0: [0-5] +0\n  device 1: [6-8] +0");
    EXPECT_EQ(text_of(to, regions), "whole of 1\n  device 0: [0-4] +0\n  device 1: [5-8] +0");
    const Reshard reshard = ReshardPlanner().plan(from, to, regions, switched_machine(2));
    ASSERT_EQ(reshard.transfers.size(), 1U);
    EXPECT_EQ(reshard.transfers[0].elements, 1);
    EXPECT_TRUE(std::ranges::equal(reshard.transfers[0].devices, std::vector{0, 1}));
}

// RULES.md 10, the drawing of layout.h: w lacks m, so its gradient is partial over m; y is partial
// over k, so its gradient is replicated.
TEST(Layout, OfAGradientIsTheDual) {
    const graph::OpRule rule = product_rule();
    const AxisNames axes{{"m", 2}, {"k", 2}};
    EXPECT_EQ(text_of(rule, axes, Side::operand, 1),
              "whole of 1"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [2-3 | 0-3] +0"
              "\n  device 2: [0-1 | 0-3] +0\n  device 3: [2-3 | 0-3] +0");
    EXPECT_EQ(text_of(rule, axes, Side::operand_gradient, 1),
              "sum of 2"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [2-3 | 0-3] +0"
              "\n  device 2: [0-1 | 0-3] +1\n  device 3: [2-3 | 0-3] +1");
    EXPECT_EQ(text_of(rule, axes, Side::result, 0),
              "sum of 2"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [0-1 | 0-3] +1"
              "\n  device 2: [2-3 | 0-3] +0\n  device 3: [2-3 | 0-3] +1");
    EXPECT_EQ(text_of(rule, axes, Side::result_gradient, 0),
              "whole of 1"
              "\n  device 0: [0-1 | 0-3] +0\n  device 1: [0-1 | 0-3] +0"
              "\n  device 2: [2-3 | 0-3] +0\n  device 3: [2-3 | 0-3] +0");
}

// RULES.md 10: a replica axis replicates both gradients. On a summand axis those of the partial
// operand and of the result are replicated, that of the other factor is partial.
TEST(Layout, OfGradientsOnReplicaAndSummandAxes) {
    const graph::OpRule rule = product_rule();
    const std::string replicated =
        "whole of 1\n  device 0: [0-3 | 0-3] +0\n  device 1: [0-3 | 0-3] +0";
    const std::string partial = "sum of 2\n  device 0: [0-3 | 0-3] +0\n  device 1: [0-3 | 0-3] +1";
    EXPECT_EQ(text_of(rule, {{"*", 2}}, Side::operand_gradient, 0), replicated);
    EXPECT_EQ(text_of(rule, {{"*", 2}}, Side::result_gradient, 0), replicated);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::operand, 0), partial);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::operand, 1), replicated);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::result, 0), partial);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::result_gradient, 0), replicated);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::operand_gradient, 0), replicated);
    EXPECT_EQ(text_of(rule, {{"+", 2}}, Side::operand_gradient, 1), partial);
    EXPECT_EQ(text_of(rule, {{"+1", 2}}, Side::operand_gradient, 0), partial);
}

/// Of every region and summand one piece's value, the same for its replicas.
PieceValues draw_values(Random& random, const Layout& layout, const Shape& shape,
                        const RegionTable& regions) {
    std::map<std::pair<std::int32_t, std::int32_t>, SparseValue> known;
    PieceValues values;
    for (const Piece& piece : layout.pieces) {
        SparseValue value = unknown(shape);
        for_each_element(regions[piece.region], shape,
                         [&](std::size_t e) { value.set(e, draw(random, 19) - 9); });
        values.push_back(
            known.emplace(std::pair{piece.region, piece.summand}, value).first->second);
    }
    return values;
}

/// <a, b> over the pieces of a layout, replicas once; what is unknown is 0.
std::int64_t inner_product(const Layout& layout, const PieceValues& a, const PieceValues& b) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> products;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const Piece& piece = layout.pieces[i];
        std::int64_t product = 0;
        for (std::size_t e = 0; e < a[i].data.size(); ++e) {
            if (a[i].knows(e) && b[i].knows(e)) product += a[i].data[e] * b[i].data[e];
        }
        products[{piece.region, piece.summand}] = product;
    }
    std::int64_t sum = 0;
    for (const auto& [piece, product] : products) sum += product;
    return sum;
}

// RULES.md 14: <A x, y> = <x, A' y>, where A brings a result to its consumer and A' the gradient of
// what the consumer has back to the producer. A plain sum over devices would count replicas twice.
TEST(Layout, TheReshardOfGradientsIsTheAdjoint) {
    const cost::Machine machine = switched_machine(8);
    TransferCounts counts;
    int partial = 0;
    for (std::uint64_t seed = 1; seed <= 5'000; ++seed) {
        Random random(seed);
        const Shape shape = draw_shape(random);
        const SplitOp producer = draw_producer(random, shape, 8);
        RegionTable regions;
        const Layout result = layout_of(producer, Side::result, shape, regions);
        if (result.is_partial() && result.combine != Combine::sum) continue;
        const SplitOp consumer = draw_consumer(random, shape, 8);
        const Layout operand = layout_of(consumer, Side::operand, shape, regions);
        const Layout given = layout_of(consumer, Side::operand_gradient, shape, regions);
        const Layout wanted = layout_of(producer, Side::result_gradient, shape, regions);
        const PieceValues x = draw_values(random, result, shape, regions);
        const PieceValues y = draw_values(random, given, shape, regions);
        const PieceValues forward =
            run_reshard(result, operand, x, shape, regions, machine, counts);
        const PieceValues backward = run_reshard(given, wanted, y, shape, regions, machine, counts);
        EXPECT_EQ(inner_product(given, forward, y), inner_product(result, x, backward))
            << "seed " << seed << "\nresult " << text_of(result, regions) << "\ngradient "
            << text_of(given, regions);
        partial += result.is_partial() && given.is_partial() ? 1 : 0;
    }
    EXPECT_GE(partial, 100);
}

}  // namespace
}  // namespace partita::plan
