// SPDX-License-Identifier: Apache-2.0
//
// The setting of products of float32 on GPUs follows the graph, and is as before afterwards.
#include "runtime/kernels/float32_products.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {
namespace {

graph::OpGraph product(graph::ProductType type) {
    graph::OpGraph graph;
    graph.name = "model";
    const auto x = graph.add_source({.name = "x", .shape = {2}, .role = graph::TensorRole::input});
    graph.add_op({.name = "product",
                  .type = "MatMul",
                  .inputs = {x, x},
                  .outputs = {graph.add_tensor({.name = "y", .shape = {}})},
                  .product_type = type});
    return graph;
}

bool matrices_in_tf32() {
    return at::globalContext().allowTF32CuBLAS();
}

bool convolutions_in_tf32() {
    return at::globalContext().allowTF32CuDNN();
}

TEST(Float32Products, AreWhatTheGraphSaysForAsLong) {
    const bool matrices = matrices_in_tf32();
    const bool convolutions = convolutions_in_tf32();
    {
        const Float32Products in_tf32(product(graph::ProductType::tf32));
        EXPECT_TRUE(matrices_in_tf32());
        EXPECT_TRUE(convolutions_in_tf32());
    }
    EXPECT_EQ(matrices_in_tf32(), matrices);
    EXPECT_EQ(convolutions_in_tf32(), convolutions);
    {
        const Float32Products in_float32(product(graph::ProductType::as_stored));
        EXPECT_FALSE(matrices_in_tf32());
        EXPECT_FALSE(convolutions_in_tf32());
    }
    EXPECT_EQ(matrices_in_tf32(), matrices);
    EXPECT_EQ(convolutions_in_tf32(), convolutions);
}

TEST(Float32Products, InFloat8AreNotExecuted) {
    try {
        check_kernels(product(graph::ProductType::float8));
        FAIL() << "no error";
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "model: op 'product': products in float8 are priced, not executed. Plan "
                     "without products=fp8.");
    }
}

}  // namespace
}  // namespace partita::runtime
