// SPDX-License-Identifier: Apache-2.0
//
// Sums of exponentials by blocks of rows are ATen's, also where they are infinite or no numbers.
#include "runtime/kernels/row_blocks.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace partita::runtime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RowBlocks, CoverAllRowsInOrder) {
    const at::Tensor wide = at::empty({5, kBlockElements / 2}).to(at::kBool);
    std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
    const auto note = [&](std::int64_t first, std::int64_t count) {
        blocks.emplace_back(first, count);
    };
    for_row_blocks(wide, note);
    using Blocks = std::vector<std::pair<std::int64_t, std::int64_t>>;
    EXPECT_EQ(blocks, (Blocks{{0, 2}, {2, 2}, {4, 1}}));
    blocks.clear();
    for_row_blocks(at::empty({2, kBlockElements + 1}, at::kBool), note);
    EXPECT_EQ(blocks, (Blocks{{0, 1}, {1, 1}}));
    blocks.clear();
    for_row_blocks(at::empty({0, 3}), note);
    for_row_blocks(at::empty({7, 0}), note);
    EXPECT_EQ(blocks, (Blocks{{0, 7}}));
}

TEST(RowBlocks, LogSumExpIsThatOfAten) {
    at::manual_seed(1);
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
        const at::ScalarType wide = type == at::kDouble ? type : at::kFloat;
        for (const double spread : {0.1, 1.0, 30.0, 1000.0}) {
            const at::Tensor x = (at::randn({50, 37}) * spread).to(type);
            const at::Tensor expected = at::logsumexp(x.to(wide), 1, /*keepdim=*/true);
            const at::Tensor found = log_sum_exp_of_rows(x, wide);
            EXPECT_EQ(found.scalar_type(), wide);
            EXPECT_TRUE(at::allclose(found, expected, 1e-6, 1e-6)) << type << " " << spread;
        }
    }
    const at::Tensor several = at::randn({3, kBlockElements / 2 + 1});
    EXPECT_TRUE(at::allclose(log_sum_exp_of_rows(several, at::kFloat),
                             at::logsumexp(several, 1, /*keepdim=*/true)));
}

TEST(RowBlocks, LogSumExpOfInfiniteRows) {
    at::Tensor x = at::zeros({4, 3}, at::kDouble);
    x[0].fill_(-kInfinity);
    x[1][2] = -kInfinity;
    x[2][0] = kInfinity;
    x[3][1] = std::numeric_limits<double>::quiet_NaN();
    const at::Tensor found = log_sum_exp_of_rows(x, at::kDouble);
    EXPECT_TRUE(at::allclose(found, at::logsumexp(x, 1, /*keepdim=*/true), 1e-12, 0.0,
                             /*equal_nan=*/true));
    EXPECT_EQ(found[0].item<double>(), -kInfinity);
    EXPECT_EQ(found[2].item<double>(), kInfinity);
}

}  // namespace
}  // namespace partita::runtime
