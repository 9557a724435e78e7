// SPDX-License-Identifier: Apache-2.0
//
// What an op reads at least, whatever its parts.
#include "plan/problem/op_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorId;
using graph::Window;

/// An operand of one dim, read by windows of one result.
struct Windowed {
    Windowed(const Window& window, std::int64_t extent, std::int64_t outputs) {
        const TensorId x = build.source("x", graph::TensorRole::input, {extent});
        build.add("Relu", {x}, {{outputs}});
        rule.factors = {{.name = "w", .extent = outputs}};
        rule.operands = {{.dims = {{.factors = {0}, .window = window}}}};
        rule.results = {{.dims = {{.factors = {0}}}}};
    }
    [[nodiscard]] std::int64_t least_read() const {
        return least_size(build.graph, OpId(std::size_t{1}), rule).operands[0];
    }
    NetworkBuilder build;
    graph::OpRule rule;
};

TEST(LeastSize, OfWindowsIsWhatTheirOutputsReadEachOnItsOwn) {
    search::Random random(1);
    for (int i = 0; i < 2'000; ++i) {
        const std::int64_t extent = 1 + draw(random, 40);
        const std::int64_t outputs = 1 + draw(random, 30);
        const Window window{.stride = draw(random, 9) - 2,
                            .before = draw(random, 30) - 10,
                            .after = draw(random, 30) - 10,
                            .divisor = 1 + draw(random, 4)};
        if (window.before + window.after < 0) continue;
        std::int64_t each = 0;
        for (std::int64_t out = 0; out < outputs; ++out) {
            const graph::Range read = operand_range(window, {out, out + 1}, extent);
            each += read.end - read.begin;
        }
        const Windowed op(window, extent, outputs);
        const std::int64_t whole =
            region_of(op.rule, op.rule.operands[0], {extent}, graph::whole_box(op.rule)).volume();
        EXPECT_EQ(op.least_read(), std::min(each, whole))
            << extent << " by " << outputs << ", stride " << window.stride << " before "
            << window.before << " after " << window.after << " divisor " << window.divisor;
    }
}

// A file of a hundred bytes may name so many.
TEST(LeastSize, OfGiantWindowsNeedsNoStepPerOutput) {
    constexpr std::int64_t kMany = std::int64_t{1} << 40;
    EXPECT_EQ(Windowed({.stride = 1, .after = 2}, kMany, kMany - 2).least_read(), kMany);
    EXPECT_EQ(Windowed({.stride = 4}, kMany, kMany / 4).least_read(), kMany / 4);
}

}  // namespace
}  // namespace partita::plan
