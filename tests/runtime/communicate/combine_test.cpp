// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/combine.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/communicate/nccl_operation.h"

namespace partita::runtime {
namespace {

using graph::Combine;

at::Tensor combined(const std::vector<at::Tensor>& parts, Combine how) {
    const at::Tensor into = at::empty_like(parts.front());
    combine({&into, 1}, parts, how);
    return into;
}

// Above 2^63 a signed comparison would turn round.
TEST(Combine, OrdersUnsigned64BitNumbers) {
    const std::uint64_t large = std::numeric_limits<std::uint64_t>::max() - 5;
    const at::Tensor a = at::empty({1}, at::kUInt64);
    const at::Tensor b = at::empty({1}, at::kUInt64);
    *a.data_ptr<std::uint64_t>() = large;
    *b.data_ptr<std::uint64_t>() = 3;
    EXPECT_EQ(*combined({a, b}, Combine::max).data_ptr<std::uint64_t>(), large);
    EXPECT_EQ(*combined({a, b}, Combine::min).data_ptr<std::uint64_t>(), 3U);
    EXPECT_EQ(*combined({a, b}, Combine::sum).data_ptr<std::uint64_t>(), large + 3);
}

TEST(Combine, KeepsANan) {
    const at::Tensor nan = at::full({1}, std::nan(""), at::kFloat);
    const at::Tensor one = at::ones({1}, at::kFloat);
    EXPECT_TRUE(std::isnan(combined({nan, one}, Combine::max).item<float>()));
    EXPECT_TRUE(std::isnan(combined({one, nan}, Combine::min).item<float>()));
}

TEST(Combine, WritesOverItsParts) {
    const std::vector<at::Tensor> parts = {at::ones({40'000}, at::kInt),
                                           at::full({40'000}, 2, at::kInt)};
    combine(parts, parts, Combine::sum);
    EXPECT_TRUE(parts[0].eq(3).all().item<bool>());
    EXPECT_TRUE(parts[1].eq(3).all().item<bool>());
}

TEST(Combine, ComplexNumbersHaveNoMaximum) {
    const at::Tensor a = at::ones({1}, at::kComplexFloat);
    EXPECT_THROW((void)combined({a, a}, Combine::max), c10::Error);
}

// NCCL's numbers, nccl.h: ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3.
TEST(Combine, IsTheSameOperationInNccl) {
    EXPECT_EQ(static_cast<int>(*nccl_operation(Combine::sum)), 0);
    EXPECT_EQ(static_cast<int>(*nccl_operation(Combine::product)), 1);
    EXPECT_EQ(static_cast<int>(*nccl_operation(Combine::max)), 2);
    EXPECT_EQ(static_cast<int>(*nccl_operation(Combine::min)), 3);
    EXPECT_FALSE(nccl_operation(Combine::log_sum_exp));
}

TEST(Combine, LogarithmsOfSumsStayFiniteAndIgnoreWhatIsNothing) {
    const double nothing = -std::numeric_limits<double>::infinity();
    const at::Tensor a = at::tensor({1000.0, 1.0, nothing, nothing});
    const at::Tensor b = at::tensor({1000.0, 2.0, 3.0, nothing});
    const at::Tensor together = combined({a, b}, Combine::log_sum_exp);
    const at::Tensor expected =
        at::tensor({1000 + std::log(2.0), std::log(std::exp(1.0) + std::exp(2.0)), 3.0, nothing});
    EXPECT_TRUE(at::allclose(together, expected)) << together;
}

}  // namespace
}  // namespace partita::runtime
