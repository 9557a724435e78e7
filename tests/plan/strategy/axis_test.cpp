// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/axis.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/problem/micro_batches.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpRule;
using graph::TensorId;
using graph::TensorRole;
using search::Random;

/// Of every kind, whether the rule has it or not.
std::vector<Axis> some_axes(const OpRule& rule) {
    std::vector<Axis> axes{Axis::replicas(2), Axis::summands(2)};
    for (std::size_t i = 0; i <= rule.operands.size(); ++i) {
        axes.push_back(Axis::summands(3, static_cast<std::int32_t>(i)));
    }
    for (std::size_t f = 0; f <= rule.factors.size(); ++f) {
        for (std::int64_t blocks = 1; blocks <= 8; ++blocks) {
            axes.push_back(Axis::along(f, 2, blocks));
        }
    }
    return axes;
}

// References to parts have a number of bits.
TEST(Parts, OfAnOpAreNotMoreThanReferencesCanName) {
    NetworkBuilder build;
    const TensorId x = build.source("x", TensorRole::input, {2 * kMostParts});
    build.add("Relu", {x}, {{2 * kMostParts}});
    const cost::Machine machine = machine_of_nodes(2 * kMostParts / 8, 8);
    const Problem problem = make_problem(build.graph, machine);
    const graph::OpId relu(std::size_t{1});
    const auto in_parts = [&](int parts) {
        return OpConfig{.axes = {axis_of(problem.facts().rule(relu), "d0", parts).value()},
                        .devices = DeviceSet::progression(0, parts, 1)};
    };
    EXPECT_EQ(find_fault(problem, relu, in_parts(kMostParts), 1), std::nullopt);
    EXPECT_EQ(find_fault(problem, relu, in_parts(2 * kMostParts), 1),
              "its degrees make 32768 parts, an op may have 16384 at most");
}

// Whose parts would have holes: causal queries must follow one another.
TEST(Axis, OfCausalQueriesHasNoBlocks) {
    for (const bool causal : {false, true}) {
        NetworkBuilder build;
        const TensorId x = build.source("x", TensorRole::input, {2, 4, 12, 8});
        build.add("Attention", {x, x, x}, {{2, 4, 12, 8}},
                  attribute("is_causal", std::int64_t{causal ? 1 : 0}));
        const OpRule rule = graph::rule_of(build.graph, graph::OpId(std::size_t{1}));
        const auto s = axis_of(rule, "s", 2);
        ASSERT_TRUE(s.has_value());
        EXPECT_TRUE(has_axis(rule, *s));
        EXPECT_EQ(has_axis(rule, Axis::along(s->factor, 2, /*blocks=*/3)), !causal);
    }
}

TEST(Axis, IsFoundByItsNameWhereTheRuleHasIt) {
    int found = 0;
    int lacking = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = random_network(random, 1 + draw(random, 8), Layers::any);
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const OpRule rule = graph::rule_of(graph, graph::OpId(i));
            for (const Axis& axis : some_axes(rule)) {
                const std::string name = name_of(rule, axis);
                const bool known = has_axis(rule, axis);
                const auto expected = known ? std::optional(axis) : std::nullopt;
                EXPECT_EQ(axis_of(rule, name, axis.degree), expected)
                    << "seed " << seed << ", op " << graph.ops()[i].type << ", axis " << name;
                ++(known ? found : lacking);
            }
        }
    }
    EXPECT_GT(found, 1'000);
    EXPECT_GT(lacking, 1'000);
}

/// y[m n] = x[m k] w[k n] + b[n], m = 6.
class AxisOfGemm : public testing::Test {
protected:
    AxisOfGemm() {
        const TensorId x = add_source(graph_, "x", TensorRole::input, {6, 4});
        const TensorId w = add_source(graph_, "w", TensorRole::parameter, {4, 8});
        const TensorId b = add_source(graph_, "b", TensorRole::parameter, {8});
        add_compute(graph_, "fc", "Gemm", {x, w, b}, {6, 8});
        rule_ = graph::rule_of(graph_, *graph_.find_op("fc"));
    }
    [[nodiscard]] std::optional<Axis> axis(std::string_view name) const {
        return axis_of(rule_, name, 2);
    }

    graph::OpGraph graph_;
    OpRule rule_;
};

TEST_F(AxisOfGemm, HasTheNamesOfFactorsBlocksReplicasAndSummands) {
    ASSERT_EQ(rule_.factors[0].name, "m");
    EXPECT_EQ(axis("m"), Axis::along(0, 2));
    EXPECT_EQ(axis("m/3"), Axis::along(0, 2, /*blocks=*/3));
    EXPECT_EQ(axis("*"), Axis::replicas(2));
    EXPECT_EQ(axis("+"), Axis::summands(2));
    EXPECT_EQ(axis("+1"), Axis::summands(2, /*operand=*/1));
}

TEST_F(AxisOfGemm, HasNoOtherNames) {
    for (const char* name : {"", "q", "M", "mm", "m ", "m/", "m/1", "m/4", "m/3x", "m//3", "m/-3",
                             "q/3", "**", "*2", "+9", "+-1", "+x", "+1x", "/3"}) {
        EXPECT_EQ(axis(name), std::nullopt) << name;
    }
}

TEST_F(AxisOfGemm, IsNamedInFaultsWhereTheRuleLacksIt) {
    const Axis ninth = Axis::along(9, 2);
    EXPECT_FALSE(has_axis(rule_, ninth));
    EXPECT_EQ(unknown_axis(name_of(rule_, ninth)), "factor '#9': the op has no such factor");
}

}  // namespace
}  // namespace partita::plan
