// SPDX-License-Identifier: Apache-2.0
//
// What is known of the errors of fitted prices is the curves' own, weighed by the time that they say.
#include "plan/problem/price_errors.h"

#include <gtest/gtest.h>

#include <vector>

#include "cost/kernels/kernel_table.h"
#include "cost/machine/machine_file.h"
#include "plan/problem/problem.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

/// A product, and what follows it.
graph::OpGraph product(const std::vector<const char*>& after) {
    NetworkBuilder build;
    const graph::Shape shape{512, 1024};
    graph::TensorId x = build.source("x", graph::TensorRole::input, {512, 2048});
    x = build.add("MatMul", {x, build.weight({2048, 1024})}, {shape})[0];
    for (const char* type : after) x = build.add(type, {x}, {shape})[0];
    build.add_outputs();
    return std::move(build.graph);
}

PriceErrors errors_of(const graph::OpGraph& graph, const cost::Machine& machine) {
    const Problem problem = make_problem(graph, machine);
    return price_errors(problem.facts(), problem.prices(),
                        whole_ops(std::vector<int>(graph.op_count(), 0), {}));
}

TEST(PriceErrors, OfOneCurveAreItsOwn) {
    const cost::Machine machine = cost::load_machine("dgx-h100:1x1");
    const cost::KernelCurve* const curve = machine.device(0).kernels->find(
        cost::KernelFamily::product, false, graph::DType::float32, graph::ProductType::as_stored);
    const PriceErrors errors = errors_of(product({}), machine);
    EXPECT_DOUBLE_EQ(errors.fitted, 1.0);
    EXPECT_DOUBLE_EQ(errors.error, curve->error);
    EXPECT_GT(errors.error, 0.0);
}

TEST(PriceErrors, OfSeveralLieBetweenTheirs) {
    const cost::Machine machine = cost::load_machine("dgx-h100:1x1");
    const double of_product = errors_of(product({}), machine).error;
    const PriceErrors errors = errors_of(product({"Relu", "Relu"}), machine);
    EXPECT_DOUBLE_EQ(errors.fitted, 1.0);
    EXPECT_LT(errors.error, of_product);  // pointwise kernels are 6 % off, products 15
    EXPECT_GT(errors.error, 0.0);
}

TEST(PriceErrors, AreUnknownWithoutCurves) {
    const PriceErrors none = errors_of(product({"Relu"}), switched_machine(1));
    EXPECT_EQ(none.fitted, 0.0);
    EXPECT_EQ(none.error, 0.0);
    // No family has this one.
    const PriceErrors some = errors_of(product({"Mish"}), cost::load_machine("dgx-h100:1x1"));
    EXPECT_GT(some.fitted, 0.0);
    EXPECT_LT(some.fitted, 1.0);
}

}  // namespace
}  // namespace partita::plan
