// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/repeated_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "importers/onnx/onnx_importer.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;

TEST(RepeatedBlocks, AreTheLayersOfAChain) {
    const graph::OpGraph graph = support::chain_network(10);  // MatMul Relu MatMul Relu ...
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(graph, machine);
    const RepeatedBlocks repeats(problem);
    EXPECT_TRUE(repeats.any());
    // The first product reads the input and has no like.
    std::size_t repeated = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!problem.facts().has_forward(OpId(i))) continue;
        for (const OpId twin : repeats.twins(OpId(i))) {
            EXPECT_EQ(graph.op(twin).type, graph.ops()[i].type);
            EXPECT_TRUE(std::ranges::equal(repeats.twins(twin), repeats.twins(OpId(i))));
        }
        if (repeats.twins(OpId(i)).size() == 4) ++repeated;
    }
    EXPECT_EQ(repeated, 8U);
}

TEST(RepeatedBlocks, AreNoneInTwoDifferentLayers) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(graph, machine);
    const RepeatedBlocks repeats(problem);
    EXPECT_FALSE(repeats.any());
    EXPECT_THAT(repeats.twins(OpId(2U)), testing::ElementsAre(OpId(2U)));
}

TEST(RepeatedBlocks, OfATransformerAreItsLayers) {
    const auto model =
        importers::import_onnx(tests::repository() / "examples/models/bert-base.onnx",
                               {.bindings = {{"batch", 8}, {"sequence", 32}}});
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(model.graph, machine);
    const RepeatedBlocks repeats(problem);
    int products = 0;
    for (std::size_t i = 0; i < model.graph.op_count(); ++i) {
        if (!problem.facts().rule(OpId(i)).matrix_product || !problem.facts().has_forward(OpId(i)))
            continue;
        const auto twins = repeats.twins(OpId(i));
        if (twins.size() >= 11) ++products;  // twelve layers
    }
    EXPECT_GE(products, 11 * 6);
}

}  // namespace
}  // namespace partita::search
