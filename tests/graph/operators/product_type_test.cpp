// SPDX-License-Identifier: Apache-2.0
//
// Which ops compute products of less precision, and what tells these from others.
#include "graph/operators/product_type.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/operators/op_rule.h"
#include "graph/operators/part_signature.h"

namespace partita::graph {
namespace {

/// x w, (x w) transposed(v), and the product of these two, which has no weight.
class Products {
public:
    explicit Products(DType dtype) : dtype_(dtype) {
        const TensorId x = source("x", TensorRole::input);
        const TensorId w = source("w", TensorRole::parameter);
        const TensorId v = source("v", TensorRole::parameter);
        const TensorId first = op("first", "MatMul", {x, w});
        const TensorId second = op("second", "MatMul", {first, op("turned", "Transpose", {v})});
        graph.add_output("out", op("scores", "MatMul", {first, second}));
    }

    [[nodiscard]] ProductType type_of(const std::string& name) const {
        return graph.op(*graph.find_op(name)).product_type;
    }

    OpGraph graph;

private:
    TensorId source(const std::string& name, TensorRole role) {
        return graph.add_source({.name = name, .shape = {4, 4}, .dtype = dtype_, .role = role});
    }
    TensorId op(const std::string& name, const std::string& type, std::vector<TensorId> inputs) {
        Op op;
        op.name = name;
        op.type = type;
        op.opset = 13;
        op.inputs = std::move(inputs);
        const TensorId result =
            graph.add_tensor({.name = name + ".y", .shape = {4, 4}, .dtype = dtype_});
        op.outputs = {result};
        graph.add_op(std::move(op));
        return result;
    }

    DType dtype_;
};

TEST(ProductTypes, AWeightBehindATransposeThatIsAViewIsStillAWeight) {
    Products plain(DType::bfloat16);
    Products views(DType::bfloat16);
    views.graph.op(*views.graph.find_op("turned")).domain = "partita";
    EXPECT_EQ(set_product_type(views.graph, ProductType::float8),
              set_product_type(plain.graph, ProductType::float8));
    EXPECT_EQ(views.type_of("second"), ProductType::float8);
}

TEST(ProductTypes, AllProductsOfFloat32CanBeTf32) {
    Products wide(DType::float32);
    EXPECT_EQ(set_product_type(wide.graph, ProductType::tf32), 3u);
    EXPECT_EQ(wide.type_of("scores"), ProductType::tf32);
    EXPECT_EQ(wide.type_of("turned"), ProductType::as_stored);
    Products narrow(DType::bfloat16);
    EXPECT_EQ(set_product_type(narrow.graph, ProductType::tf32), 0u);
}

TEST(ProductTypes, Float8IsForProductsWithWeights) {
    for (const DType dtype : {DType::bfloat16, DType::float32}) {
        Products products(dtype);
        EXPECT_EQ(set_product_type(products.graph, ProductType::float8), 2u);
        EXPECT_EQ(products.type_of("first"), ProductType::float8);
        EXPECT_EQ(products.type_of("second"), ProductType::float8) << "through a Transpose";
        EXPECT_EQ(products.type_of("scores"), ProductType::as_stored);
    }
}

// Convolutions are run in float8 by no engine that we know of.
TEST(ProductTypes, Float8IsForNoConvolution) {
    OpGraph graph;
    const TensorId x = graph.add_source(
        {.name = "x", .shape = {1, 4, 8, 8}, .dtype = DType::bfloat16, .role = TensorRole::input});
    const TensorId w = graph.add_source({.name = "w",
                                         .shape = {4, 4, 3, 3},
                                         .dtype = DType::bfloat16,
                                         .role = TensorRole::parameter});
    Op op;
    op.name = "conv";
    op.type = "Conv";
    op.opset = 11;
    op.inputs = {x, w};
    op.outputs = {graph.add_tensor({.name = "y", .shape = {1, 4, 6, 6}, .dtype = DType::bfloat16})};
    const TensorId y = op.outputs[0];
    graph.add_op(std::move(op));
    graph.add_output("out", y);
    EXPECT_EQ(set_product_type(graph, ProductType::float8), 0u);
    EXPECT_EQ(graph.op(*graph.find_op("conv")).product_type, ProductType::as_stored);
}

// What was measured of one is no price of the other, and a plan of one none of the other.
TEST(ProductTypes, TellModelsAndWorksApart) {
    const Products plain(DType::float32);
    Products fast(DType::float32);
    set_product_type(fast.graph, ProductType::tf32);
    EXPECT_NE(digest(fast.graph), digest(plain.graph));
    const auto signature = [](const OpGraph& graph) {
        const OpId op = *graph.find_op("first");
        const OpRule rule = rule_of(graph, op);
        return part_signature(graph, op, part_op(graph, op, rule, whole_box(rule)));
    };
    EXPECT_EQ(signature(plain.graph).text,
              "MatMul.13 (float32[4,4], float32[4,4]) -> (float32[4,4])");
    EXPECT_EQ(signature(fast.graph).text,
              "MatMul.13 tf32 (float32[4,4], float32[4,4]) -> (float32[4,4])");
    EXPECT_NE(signature(fast.graph).family, signature(plain.graph).family);
}

}  // namespace
}  // namespace partita::graph
