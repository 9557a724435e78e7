// SPDX-License-Identifier: Apache-2.0
//
// What a plan says of an op on a GPU with curves of its kernels, beside what was measured.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cost/kernels/kernel_table.h"
#include "cost/machine/machine_file.h"
#include "plan/problem/problem.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/support/csv_rows.h"

namespace partita::plan {
namespace {

using graph::DType;
using graph::OpGraph;
using graph::TensorId;

constexpr DType kType = DType::bfloat16;

cost::Machine h200() {
    return cost::load_machine("dgx-h200:1x1");
}

struct OpTimes {
    Time forward;
    Time backward;
};

/// Of the last compute op.
OpTimes times_of(OpGraph graph, const cost::Machine& machine) {
    const std::size_t last = graph.op_count() - 1;
    graph.tensor(graph.op(graph::OpId(last)).outputs[0]).dtype = kType;
    graph.add_output("y", graph.op(graph::OpId(last)).outputs[0]);
    const Problem problem = make_problem(graph, machine, {.mode = Mode::training});
    return {.forward = problem.prices().forward_time(graph::OpId(last), 0),
            .backward = problem.prices().backward_time(graph::OpId(last), 0)};
}

/// An op of `operands` that are all trained.
OpGraph one_op(const char* type, const std::vector<graph::Shape>& operands, graph::Shape result,
               const std::string& domain = "") {
    NetworkBuilder build;
    std::vector<TensorId> inputs;
    for (const graph::Shape& shape : operands) {
        inputs.push_back(build.weight(shape));
        build.graph.tensor(inputs.back()).dtype = kType;
    }
    build.add(type, std::move(inputs), {std::move(result)}, {}, domain);
    return std::move(build.graph);
}

/// Mean |predicted / measured - 1| over attention that every query looks through.
double error_on_attention(const std::string& phase) {
    const cost::Machine machine = h200();
    double sum = 0;
    int count = 0;
    for (const tests::CsvRow& row : tests::profile_rows("h200/attention.csv")) {
        if (row.at("phase") != phase || row.at("causal") != "0") continue;
        graph::Shape shape;
        for (const char* const dim : {"batch", "heads", "length", "head"}) {
            shape.push_back(std::stoll(row.at(dim)));
        }
        const OpTimes times = times_of(one_op("Attention", {shape, shape, shape}, shape), machine);
        const Time time = phase == "forward" ? times.forward : times.backward;
        sum += std::abs(1e6 * to_seconds(time) / std::stod(row.at("time_us")) - 1);
        ++count;
    }
    EXPECT_EQ(count, 24);
    return sum / count;
}

// Plans count the backward as twice the forward's FLOPs, and so must the curve.
TEST(KernelPrices, AttentionTakesWhatWasMeasured) {
    EXPECT_LT(error_on_attention("forward"), 0.16);
    EXPECT_LT(error_on_attention("backward"), 0.12);
}

/// A linear layer without and with a bias, in each of the two forms.
struct WithBias {
    OpTimes plain;
    OpTimes biased;
};
WithBias products(const cost::Machine& machine, std::int64_t inner = 768) {
    const graph::Shape x{8192, inner};
    const graph::Shape w{inner, 1024};
    const graph::Shape y{8192, 1024};
    return {times_of(one_op("MatMul", {x, w}, y), machine),
            times_of(one_op("Linear", {x, w, {1024}}, y, "partita"), machine)};
}
WithBias convolutions(const cost::Machine& machine) {
    const graph::Shape y{16, 64, 30, 30};
    return {times_of(one_op("Conv", {{16, 32, 32, 32}, {64, 32, 3, 3}}, y), machine),
            times_of(one_op("Conv", {{16, 32, 32, 32}, {64, 32, 3, 3}, {64}}, y), machine)};
}

Time moving(cost::KernelFamily family, std::int64_t bytes, const cost::Device& device) {
    const auto* const curve =
        device.kernels->find(family, /*backward=*/false, kType, graph::ProductType::as_stored);
    return curve->time({}, transfer_time(Bytes(bytes), device.memory_bandwidth));
}

bool is_about(Time a, Time b) {
    return std::abs(to_seconds(a) / to_seconds(b) - 1) < 1e-3;
}

TEST(KernelPrices, OfABiasInsideAProductAreThatOfItsGradientAlone) {
    const cost::Machine machine = h200();
    const auto [plain, biased] = products(machine);
    EXPECT_TRUE(is_about(biased.forward, plain.forward));
    const Time sum = moving(cost::KernelFamily::reduction, 2 * 8192 * 1024, machine.device(0));
    EXPECT_TRUE(is_about(biased.backward, plain.backward + sum));
}

TEST(KernelPrices, OfABiasBehindAConvolutionAreAnAdditionAndASum) {
    const cost::Machine machine = h200();
    const auto [plain, biased] = convolutions(machine);
    const std::int64_t bytes = std::int64_t{2} * 16 * 64 * 30 * 30;
    const Time addition = moving(cost::KernelFamily::pointwise, 2 * bytes, machine.device(0));
    EXPECT_TRUE(is_about(biased.forward, plain.forward + addition));
    const Time sum = moving(cost::KernelFamily::reduction, bytes, machine.device(0));
    EXPECT_TRUE(is_about(biased.backward, plain.backward + sum));
}

// A roofline knows nothing of kernels; of few products of an element, memory is what counts.
TEST(KernelPrices, WithoutCurvesABiasRidesAlong) {
    const auto [plain, biased] = products(switched_machine(1), /*inner=*/4);
    EXPECT_TRUE(is_about(biased.forward, plain.forward));
    EXPECT_TRUE(is_about(biased.backward, plain.backward));
}

}  // namespace
}  // namespace partita::plan
