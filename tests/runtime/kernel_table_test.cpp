// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/kernel_table.h"

#include <algorithm>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/error.h"

namespace partita::runtime {
namespace {

TEST(KernelTable, EveryOperatorHasOneKernel) {
    const auto rows = all_kernels();
    const auto same = std::ranges::adjacent_find(rows, [](const auto* a, const auto* b) {
        return std::tie(a->domain, a->type) == std::tie(b->domain, b->type);
    });
    EXPECT_EQ(same, rows.end()) << (*same)->type;
    for (const KernelRow* row : rows) EXPECT_EQ(find_kernel(row->domain, row->type), row);
}

TEST(KernelTable, AnOperatorWithoutKernelIsNamedOnceWithItsFirstOp) {
    graph::OpGraph graph;
    graph.name = "model";
    const auto x = graph.add_source({.name = "x", .shape = {2}, .role = graph::TensorRole::input});
    for (const std::string name : {"known", "strange", "stranger"}) {
        const auto y = graph.add_tensor({.name = name, .shape = {2}});
        graph.add_op({.name = name,
                      .type = name == "known" ? "Relu" : "Strange",
                      .domain = name == "known" ? "" : "my.domain",
                      .inputs = {x},
                      .outputs = {y}});
    }
    try {
        check_kernels(graph);
        FAIL() << "no error";
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "model: no kernel for my.domain.Strange ('strange'). Such a model can be "
                     "planned, not executed.");
    }
}

}  // namespace
}  // namespace partita::runtime
