// SPDX-License-Identifier: Apache-2.0
//
// Products of all forms and sizes are those of ATen, whichever library computes them.
#include "runtime/kernels/matrix_product.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace partita::runtime {
namespace {

constexpr std::int64_t kRows = 96;
constexpr std::int64_t kInner = 200;
constexpr std::int64_t kColumns = 130;  // 2.5 million multiply-adds: large

at::TensorOptions floats() {
    return at::TensorOptions().dtype(at::kFloat);
}

/// A matrix of that size in every kind of strides.
std::vector<std::pair<std::string, at::Tensor>> matrices(std::int64_t rows, std::int64_t columns) {
    return {{"rows", at::randn({rows, columns}, floats())},
            {"columns", at::randn({columns, rows}, floats()).t()},
            {"part of rows", at::randn({rows, columns + 7}, floats()).narrow(1, 3, columns)},
            {"part of columns", at::randn({columns, rows + 7}, floats()).narrow(1, 3, rows).t()},
            {"every second", at::randn({rows, 2 * columns}, floats()).slice(1, 0, 2 * columns, 2)},
            {"one row again", at::randn({1, columns}, floats()).expand({rows, columns})}};
}

double difference(const at::Tensor& a, const at::Tensor& b) {
    EXPECT_EQ(a.sizes(), b.sizes());
    if (b.numel() == 0) return 0.0;
    return (at::max(at::abs(a - b)) / (at::max(at::abs(b)) + 1e-30)).item<double>();
}

TEST(MatrixProduct, OfAllStridesIsThatOfAten) {
    at::manual_seed(1);
    for (const auto& [a_name, a] : matrices(kRows, kInner)) {
        for (const auto& [b_name, b] : matrices(kInner, kColumns)) {
            EXPECT_LE(difference(matrix_product(a, b), at::mm(a, b)), 1e-5)
                << a_name << ", " << b_name;
        }
    }
}

TEST(MatrixProduct, WithRoomBehindRowsIsTheSame) {
    at::manual_seed(2);
    const at::TensorOptions doubles = floats().dtype(at::kDouble);
    for (const std::int64_t m : {1, 8, 13}) {
        for (const std::int64_t n : {1, 16, 21}) {
            for (const auto& [a_name, a] : matrices(m, 11)) {
                for (const auto& [b_name, b] : matrices(11, n)) {
                    const at::Tensor product = product_with_room(a.to(doubles), b.to(doubles), 8);
                    EXPECT_LE(difference(product, at::mm(a.to(doubles), b.to(doubles))), 1e-12)
                        << m << " x " << n << ", " << a_name << ", " << b_name;
                    EXPECT_EQ(product.stride(0) % 8, 0);
                }
            }
        }
    }
}

TEST(MatrixProduct, GradientsAreTheProducts) {
    at::manual_seed(3);
    const at::Tensor b = at::randn({kInner, kColumns}, floats());
    for (const auto& [name, a] : matrices(kRows, kInner)) {
        for (const auto& [g_name, g] : matrices(kRows, kColumns)) {
            for (const auto& [of_a, of_b] :
                 {product_gradients(a, b, g), gradients_with_room(a, b, g, 8),
                  gradients_with_room(a, b, g, 64)}) {
                EXPECT_LE(difference(of_a, at::mm(g, b.t())), 1e-5) << name << ", " << g_name;
                EXPECT_LE(difference(of_b, at::mm(a.t(), g)), 1e-5) << name << ", " << g_name;
            }
        }
    }
}

TEST(MatrixProduct, WithGapsThatAreUsedSeldomStaysWithAten) {
    const at::Tensor few = at::randn({20, 1000}, floats());
    for (const auto& [name, many] : matrices(1000, 200)) {
        const bool is_dense = name == "rows" || name == "columns";
        EXPECT_EQ(suits_one_dnn(few, many), is_dense) << name;
        EXPECT_EQ(suits_one_dnn(many.t(), few.t()), is_dense) << name;
        EXPECT_LE(difference(matrix_product(few, many), at::mm(few, many)), 1e-5) << name;
    }
}

TEST(MatrixProduct, OfAllSizesIsThatOfAten) {
    at::manual_seed(2);
    using Sizes = std::vector<std::int64_t>;
    for (const Sizes& s : {Sizes{1, 2000, 2000},
                           {2000, 2000, 1},
                           {2000, 1, 2000},
                           {2, 2, 1'000'000},
                           {0, 5, 5},
                           {5, 0, 5},
                           {5, 5, 0},
                           {3, 4, 5},
                           {257, 129, 65}}) {
        const at::Tensor a = at::randn({s[0], s[1]}, floats());
        const at::Tensor b = at::randn({s[1], s[2]}, floats());
        EXPECT_LE(difference(matrix_product(a, b), at::mm(a, b)), 1e-5)
            << s[0] << " " << s[1] << " " << s[2];
    }
}

TEST(MatrixProduct, OfOtherTypesIsExactlyThatOfAten) {
    at::manual_seed(3);
    for (const at::ScalarType type : {at::kDouble, at::kHalf, at::kBFloat16, at::kInt}) {
        const at::Tensor a = (at::randn({kRows, kInner}, floats()) * 4).to(type);
        const at::Tensor b = (at::randn({kInner, kColumns}, floats()) * 4).to(type);
        EXPECT_TRUE(at::equal(matrix_product(a, b), at::mm(a, b))) << at::toString(type);
    }
}

TEST(MatrixProduct, AddsWhatBroadcasts) {
    at::manual_seed(4);
    const at::Tensor a = at::randn({kRows, kInner}, floats());
    const at::Tensor b = at::randn({kInner, kColumns}, floats());
    using Extents = std::vector<std::int64_t>;
    for (const Extents& shape :
         {Extents{}, {1}, {kColumns}, {1, kColumns}, {kRows, 1}, {kRows, kColumns}}) {
        const at::Tensor c = at::randn(shape, floats());
        for (const double alpha : {1.0, 0.5}) {
            for (const double beta : {1.0, -2.0}) {
                EXPECT_LE(difference(product_and_sum(c, a, b, beta, alpha),
                                     at::addmm(c, a, b, beta, alpha)),
                          1e-5)
                    << c.sizes() << ", " << alpha << ", " << beta;
            }
        }
    }
}

TEST(MatrixProduct, OfStacksIsThatOfAten) {
    at::manual_seed(5);
    const at::Tensor stack = at::randn({3, 32, kInner}, floats());
    const at::Tensor turned = at::randn({32, 3, kInner}, floats()).transpose(0, 1);
    const at::Tensor row = at::randn({kInner}, floats());
    for (const at::Tensor& a : {stack, turned, row}) {
        for (const at::Tensor& b :
             {at::randn({kInner, kColumns}, floats()), at::randn({3, kInner, kColumns}, floats()),
              at::randn({kInner}, floats())}) {
            EXPECT_LE(difference(stacked_product(a, b), at::matmul(a, b)), 1e-5)
                << a.sizes() << ", " << b.sizes();
        }
    }
}

TEST(MatrixProduct, OfStacksOfLargeMatricesIsThatOfAten) {
    at::manual_seed(7);
    const at::Tensor a = at::randn({2, 3, kRows, kInner}, floats());
    const at::Tensor b = at::randn({2, 3, kInner, kColumns}, floats());
    const at::Tensor turned = at::randn({2, 3, kColumns, kInner}, floats()).transpose(-2, -1);
    const at::Tensor heads = at::randn({2, kInner, 3, kColumns}, floats()).transpose(1, 2);
    for (const at::Tensor& right : {b, turned, heads, b[0], b.narrow(0, 0, 1)}) {
        EXPECT_LE(difference(stacked_product(a, right), at::matmul(a, right)), 1e-5)
            << right.sizes() << ", strides " << right.strides();
    }
    const at::Tensor none = at::empty({0, 3, kRows, kInner}, floats());
    EXPECT_EQ(stacked_product(none, b.narrow(0, 0, 0)).numel(), 0);
}

// A product without a derivative would silently cut the tape.
TEST(MatrixProduct, IsSeenByAutograd) {
    at::manual_seed(6);
    const at::AutoGradMode grad(true);
    const at::Tensor a = at::randn({kRows, kInner}, floats()).requires_grad_(true);
    const at::Tensor b = at::randn({kInner, kColumns}, floats());
    const at::Tensor c = at::randn({kColumns}, floats()).requires_grad_(true);
    const at::Tensor ones = at::ones({kRows, kColumns}, floats());
    const auto of_a = torch::autograd::grad({matrix_product(a, b)}, {a}, {ones})[0];
    EXPECT_LE(difference(of_a, at::mm(ones, b.t())), 1e-5);
    const auto of_c =
        torch::autograd::grad({product_and_sum(c, a.detach(), b, 1.0, 1.0)}, {c}, {ones})[0];
    EXPECT_LE(difference(of_c, at::sum(ones, 0)), 1e-5);
}

}  // namespace
}  // namespace partita::runtime
