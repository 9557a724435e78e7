// SPDX-License-Identifier: Apache-2.0
#include "base/figure.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(Figure, IsInTheBaseUnitOfItsKind) {
    EXPECT_EQ(parse_figure("16GiB", FigureKind::bytes), std::int64_t{16} << 30);
    EXPECT_EQ(parse_figure("800 Gb/s", FigureKind::bytes_per_second), 100'000'000'000);
    EXPECT_EQ(parse_figure("19.5TFLOP/s", FigureKind::flops), 19'500'000'000'000);
    EXPECT_EQ(parse_figure("7us", FigureKind::time), 7'000'000);
    EXPECT_EQ(parse_figure("2.5", FigureKind::price), 2'500'000);
    EXPECT_EQ(parse_figure("0", FigureKind::time), 0) << "of any unit";
}

TEST(Figure, OfAnotherKindIsNone) {
    for (const char* const text : {"", "us", "7", "7GiB", "7 kus", "-7us", "1e10s", "nan us"}) {
        EXPECT_EQ(parse_figure(text, FigureKind::time), std::nullopt) << text;
    }
    for (const char* const text : {"", "2k", "-1", "2.5/h", "2e15"}) {
        EXPECT_EQ(parse_figure(text, FigureKind::price), std::nullopt) << text;
    }
}

}  // namespace
}  // namespace partita
