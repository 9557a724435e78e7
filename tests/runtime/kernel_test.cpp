// SPDX-License-Identifier: Apache-2.0
//
// What the conformance node tests do not show: parts of random tensors, unsigned numbers above
// 2^63, and operators that they leave out.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/tensors.h"
#include "tests/runtime/one_op.h"

namespace partita::runtime {
namespace {

using graph::DType;
using graph::Shape;
using Integers = std::vector<std::int64_t>;

at::Tensor floats(const Integers& values, const Shape& shape) {
    return integer_tensor(values, shape).to(at::kFloat);
}

at::Tensor unsigned_numbers(const std::vector<std::uint64_t>& values) {
    const Integers held(values.begin(), values.end());
    return integer_tensor(held, {static_cast<std::int64_t>(values.size())}).to(at::kUInt64);
}

constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;

TEST(Kernel, RandomNumbersOfAnElementDoNotDependOnTheSplit) {
    const at::Tensor x = at::ones({7, 50});
    const OneOp dropout{"Dropout", {x}, {7, 50}, DType::float32, {{"ratio", 0.3}}, 6};
    const OneOp uniform{"RandomUniformLike", {x}, {7, 50}};
    for (const OneOp& one : {dropout, uniform}) {
        const at::Tensor whole = result_of(one);
        const at::Tensor joined = at::cat(
            {result_of(one, {x.narrow(0, 0, 4)}, 2, 0), result_of(one, {x.narrow(0, 4, 3)}, 2, 1)});
        EXPECT_TRUE(at::equal(joined, whole)) << one.type;
    }
}

TEST(Kernel, RandomNumbersAreSpreadAsAsked) {
    const at::Tensor x = at::zeros({100, 100});
    const at::Tensor uniform = result_of({"RandomUniformLike", {x}, {100, 100}});
    EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.01);
    EXPECT_NEAR(uniform.var().item<double>(), 1.0 / 12, 0.01);
    const at::Tensor normal = result_of({"RandomNormalLike", {x}, {100, 100}});
    EXPECT_NEAR(normal.mean().item<double>(), 0.0, 0.05);
    EXPECT_NEAR(normal.var().item<double>(), 1.0, 0.05);
    const at::Tensor kept = result_of({"Dropout", {x + 1}, {100, 100}, DType::float32, {}, 6});
    EXPECT_NEAR(kept.mean().item<double>(), 1.0, 0.05);
}

TEST(Kernel, RefusesResultsOfElementsThatCannotBeComputedWith) {
    const at::Tensor x = at::ones({4});
    for (const DType dtype : {DType::undefined, DType::string}) {
        for (const char* type : {"Bernoulli", "Cast", "RandomNormalLike", "RandomUniformLike"}) {
            EXPECT_THROW(result_of({type, {x}, {4}, dtype}), std::runtime_error) << type;
        }
        const OneOp quantized{"DequantizeLinear", {x.to(at::kChar), at::ones({})}, {4}, dtype};
        EXPECT_THROW(result_of(quantized), std::runtime_error);
    }
}

TEST(Kernel, UnsignedNumbersAbove63BitsKeepTheirOrder) {
    const at::Tensor a = unsigned_numbers({kHalf + 5, 3, kHalf, 7});
    const at::Tensor b = unsigned_numbers({2, kHalf, kHalf + 1, 7});
    const at::Tensor less = result_of({"Less", {a, b}, {4}, DType::boolean});
    EXPECT_TRUE(at::equal(less.to(at::kLong), integer_tensor({0, 1, 1, 0}, {4})));
    const at::Tensor largest = result_of({"Max", {a, b}, {4}, DType::uint64});
    EXPECT_TRUE(at::equal(largest.to(at::kLong),
                          unsigned_numbers({kHalf + 5, kHalf, kHalf + 1, 7}).to(at::kLong)));
}

TEST(Kernel, UnsignedNumbersAbove63BitsDivideAndShift) {
    const at::Tensor a = unsigned_numbers({kHalf + 5, 3, ~std::uint64_t{0}, kHalf + 9});
    const at::Tensor b = unsigned_numbers({2, kHalf, 10, kHalf + 1});
    const at::Tensor quotient = result_of({"Div", {a, b}, {4}, DType::uint64});
    EXPECT_TRUE(
        at::equal(quotient.to(at::kLong),
                  unsigned_numbers({kHalf / 2 + 2, 0, ~std::uint64_t{0} / 10, 1}).to(at::kLong)));
    const at::Tensor rest = result_of({"Mod", {a, b}, {4}, DType::uint64});
    EXPECT_TRUE(at::equal(rest.to(at::kLong), unsigned_numbers({1, 3, 5, 8}).to(at::kLong)));
    const at::Tensor by = unsigned_numbers({1, 0, 63, 64});
    const at::Tensor shifted =
        result_of({"BitShift", {a, by}, {4}, DType::uint64, {{"direction", std::string("RIGHT")}}});
    EXPECT_TRUE(
        at::equal(shifted.to(at::kLong), unsigned_numbers({kHalf / 2 + 2, 3, 1, 0}).to(at::kLong)));
}

// Bins of a region of 3 x 4 elements, 2 x 2 of them; the second region lies at one corner.
TEST(Kernel, MaxRoiPoolTakesTheLargestOfEachBin) {
    Integers values(16);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
    const at::Tensor x = floats(values, {1, 1, 4, 4});
    const at::Tensor regions = floats({0, 0, 0, 3, 2, 0, 3, 3, 3, 3}, {2, 5});
    const at::Tensor found = result_of({"MaxRoiPool",
                                        {x, regions},
                                        {2, 1, 2, 2},
                                        DType::float32,
                                        {{"pooled_shape", Integers{2, 2}}}});
    EXPECT_TRUE(at::equal(found, floats({5, 7, 9, 11, 15, 15, 15, 15}, {2, 1, 2, 2})));
}

TEST(Kernel, GlobalLpPoolIsANormOfTheImage) {
    const at::Tensor found = result_of({"GlobalLpPool", {floats({3, -4}, {1, 1, 2})}, {1, 1, 1}});
    EXPECT_TRUE(at::equal(found, floats({5}, {1, 1, 1})));
}

// Operand 1 stands at dim 1 of operand 0, not at its end.
TEST(Kernel, BroadcastingBeforeOpset7FollowsTheAxis) {
    const at::Tensor found = result_of({"Add",
                                        {at::zeros({1, 2, 3}), floats({10, 20}, {2})},
                                        {1, 2, 3},
                                        DType::float32,
                                        {{"axis", std::int64_t{1}}, {"broadcast", std::int64_t{1}}},
                                        6});
    EXPECT_TRUE(at::equal(found, floats({10, 10, 10, 20, 20, 20}, {1, 2, 3})));
}

}  // namespace
}  // namespace partita::runtime
