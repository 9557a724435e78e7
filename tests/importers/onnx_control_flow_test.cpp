// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: one op that carries its bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/importers/onnx_fixtures.h"

namespace partita::importers {
namespace {

using graph::OpGraph;
using graph::OpKind;
using graph::Shape;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxControlFlow, BranchesShareTheirCaptures) {
    const OnnxModel model = fixture("if_unknown");
    const graph::Op& choose = op(model.graph, "choose");
    std::vector<std::string> operands;
    for (const auto id : choose.inputs) operands.push_back(model.graph.tensor(id).name);
    EXPECT_THAT(operands, ElementsAre("c", "w", "b", "x", "a"));
    ASSERT_EQ(choose.bodies.size(), 2u);
    EXPECT_EQ(choose.bodies[0].name, "then_branch");
    // Both bodies take the four captures, used or not, in the order of the op's last operands.
    for (const graph::Body& body : choose.bodies) {
        EXPECT_THAT(names(*body.graph, OpKind::input), ElementsAre("w", "b", "x", "a"));
    }
    EXPECT_THAT(names(*choose.bodies[0].graph, OpKind::compute), ElementsAre("t_mul"));
    EXPECT_THAT(names(*choose.bodies[1].graph, OpKind::compute), ElementsAre("e_add"));
    EXPECT_EQ(model.graph.tensor(choose.inputs[1]).role, graph::TensorRole::parameter);
    EXPECT_EQ(result(model.graph, "choose").shape, (Shape{2, 3}));
}

TEST(OnnxControlFlow, AKnownConditionLeavesItsBranch) {
    const OnnxModel model = fixture("if_known");
    EXPECT_THAT(names(model.graph, OpKind::compute), ElementsAre("e_relu"));
    EXPECT_THAT(model.notes, testing::Contains(HasSubstr("1 If nodes")));
}

TEST(OnnxControlFlow, BranchesOfDifferentExtentsGiveAnUpperBound) {
    const OnnxModel model = fixture("if_extents");
    EXPECT_EQ(result(model.graph, "If_0").shape, (Shape{4, 3}));
    EXPECT_EQ(result(model.graph, "If_0").upper_bound_dims, 0b01u);
}

TEST(OnnxControlFlow, ALoopKnowsItsTripCount) {
    const OnnxModel model = fixture("loop");
    const graph::Op& repeat = op(model.graph, "repeat");
    EXPECT_EQ(repeat.trip_count, 5);
    EXPECT_EQ(result(model.graph, "repeat", 0).shape, (Shape{4, 8}));
    EXPECT_EQ(result(model.graph, "repeat", 1).shape, (Shape{5, 4, 8}));
    EXPECT_EQ(model.bounded_tensors, 0);
    ASSERT_EQ(repeat.bodies.size(), 1u);
    EXPECT_THAT(names(*repeat.bodies[0].graph, OpKind::input), ElementsAre("i", "go", "h_in", "w"));
    EXPECT_EQ(model.graph.tensor(repeat.inputs.back()).name, "w");
}

// rows  1 ─▶ 3 ─▶ 5 ─▶ 7: the body is read with what its last iteration gets, 5, and makes 7.
TEST(OnnxControlFlow, AStateThatGrowsHasItsLastExtent) {
    const OnnxModel model = fixture("loop_growing");
    EXPECT_EQ(result(model.graph, "Loop_0").shape, (Shape{7, 8}));
    EXPECT_EQ(result(model.graph, "Loop_0").upper_bound_dims, 0u);
    const OpGraph& body = *op(model.graph, "Loop_0").bodies.at(0).graph;
    EXPECT_EQ(result(body, "rows").shape, (Shape{5, 8}));
    EXPECT_EQ(result(body, "rows").upper_bound_dims, 0b01u);
}

TEST(OnnxControlFlow, ALoopThatTheDataEndsHasAnUpperBound) {
    const OnnxModel model = fixture("loop_early_exit");
    EXPECT_FALSE(op(model.graph, "Loop_0").trip_count.has_value());
    EXPECT_EQ(result(model.graph, "Loop_0", 1).shape, (Shape{7, 4}));
    EXPECT_EQ(result(model.graph, "Loop_0", 1).upper_bound_dims, 0b01u);
}

TEST(OnnxControlFlow, AScanRunsOverItsAxis) {
    const OnnxModel model = fixture("scan");
    EXPECT_EQ(op(model.graph, "sum").trip_count, 6);
    const OpGraph& body = *op(model.graph, "sum").bodies.at(0).graph;
    EXPECT_EQ(result(body, "x").shape, (Shape{8}));
    EXPECT_EQ(result(model.graph, "sum", 1).shape, (Shape{6, 8}));
}

TEST(OnnxControlFlow, CapturesPassThroughNestedBodies) {
    const OnnxModel model = fixture("nested");
    const graph::Op& outer = op(model.graph, "outer");
    const OpGraph& taken = *outer.bodies.at(0).graph;
    const graph::Op& inner = op(taken, "inner");
    EXPECT_EQ(inner.trip_count, 6);
    EXPECT_EQ(op(*inner.bodies.at(0).graph, "deep").inputs.size(), 2u);
    EXPECT_THAT(names(taken, OpKind::input), ElementsAre("x"));
}

}  // namespace
}  // namespace partita::importers
