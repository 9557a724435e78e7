// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/attributes.h"

namespace partita::graph {
namespace {

TEST(DType, NamesLeadBack) {
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    }
    EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(DType, WidthsInBits) {
    EXPECT_EQ(bits_of(DType::undefined), 0);
    EXPECT_EQ(bits_of(DType::float32), 32);
    EXPECT_EQ(bits_of(DType::bfloat16), 16);
    EXPECT_EQ(bits_of(DType::boolean), 8);
    EXPECT_EQ(bits_of(DType::float8e4m3fn), 8);
    EXPECT_EQ(bits_of(DType::float4e2m1), 4);
    EXPECT_EQ(bits_of(DType::int2), 2);
    EXPECT_EQ(bits_of(DType::complex128), 128);
    EXPECT_TRUE(is_floating_point(DType::bfloat16));
    EXPECT_FALSE(is_floating_point(DType::int8));
}

TEST(Tensor, ElementsAndBytes) {
    EXPECT_EQ(Tensor{}.elements(), 1);  // a scalar
    EXPECT_EQ((Tensor{.shape = {2, 3}}).elements(), 6);
    EXPECT_EQ((Tensor{.shape = {5}, .dtype = DType::int4}).bytes(), Bytes(3));
    EXPECT_EQ((Tensor{.shape = {40'000'000, 128}}).bytes(), Bytes(20'480'000'000));
    EXPECT_EQ((Tensor{.shape = {5}, .given_bytes = Bytes(7)}).bytes(), Bytes(7));
}

TEST(Tensor, TooManyElementsThrow) {
    const std::int64_t large = std::int64_t{1} << 40;
    EXPECT_THROW(static_cast<void>((Tensor{.shape = {large, large}}).elements()), OverflowError);
    EXPECT_EQ((Tensor{.shape = {large, large, 0}}).elements(), 0);
}

TEST(Attributes, KeepTheLastValueOfAName) {
    Attributes attributes;
    attributes.set("strides", std::vector<std::int64_t>{2, 2});
    attributes.set("axis", std::int64_t{1});
    attributes.set("axis", std::int64_t{-1});
    EXPECT_EQ(attributes.entries().size(), 2u);
    EXPECT_EQ(attributes.get_int("axis", 0), -1);
    EXPECT_EQ(attributes.get_ints("strides"), (std::vector<std::int64_t>{2, 2}));
}

TEST(Attributes, FallBackOnAbsenceAndOtherTypes) {
    Attributes attributes;
    attributes.set("mode", std::string("linear"));
    EXPECT_EQ(attributes.get_int("mode", 7), 7);
    EXPECT_EQ(attributes.get_float("alpha", 0.5), 0.5);
    EXPECT_EQ(attributes.get_string("mode", ""), "linear");
    EXPECT_TRUE(attributes.get_ints("mode").empty());
    EXPECT_EQ(attributes.find("nothing"), nullptr);
}

TEST(Attributes, EqualWhateverTheOrderOfSetting) {
    Attributes a;
    a.set("x", std::int64_t{1});
    a.set("y", 2.0);
    Attributes b;
    b.set("y", 2.0);
    b.set("x", std::int64_t{1});
    EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace partita::graph
