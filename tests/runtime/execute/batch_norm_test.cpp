// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization that takes the statistics of its batch (`training_mode`): a part of the batch
// has others, so neither splits nor micro-batches cut it; channels may be split, and everything
// around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "plan/legality/config_legality.h"
#include "search/support/random.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::OpId;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;
using testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

constexpr int kNormDevices = 4;

/// Convolution, normalization, product. The running statistics are outputs too.
OpGraph normalized(bool takes_statistics) {
    plan::NetworkBuilder build;
    const TensorId x = build.source("x", TensorRole::input, {4, 3, 6, 6});
    const auto image = build.add("Conv", {x, build.weight({6, 3, 3, 3})}, {{4, 6, 4, 4}}, {});
    std::vector<TensorId> operands{image[0], build.weight({6}), build.weight({6})};
    for (const char* statistic : {"mean", "variance"}) {
        operands.push_back(build.source(statistic, TensorRole::constant, {6}));
    }
    std::vector<Shape> results{{4, 6, 4, 4}};
    if (takes_statistics) results.insert(results.end(), 2, Shape{6});
    const auto norm =
        build.add("BatchNormalization", operands, results,
                  plan::attribute("training_mode", std::int64_t{takes_statistics ? 1 : 0}));
    const auto active = build.add("Relu", {norm[0]}, {{4, 6, 4, 4}});
    const auto rows = build.add("Flatten", active, {{4, 96}});
    build.add("MatMul", {rows[0], build.weight({96, 5})}, {{4, 5}});
    build.add_outputs();
    return std::move(build.graph);
}

OpId normalization_of(const OpGraph& graph) {
    const auto found = std::ranges::find_if(
        graph.ops(), [](const graph::Op& op) { return op.type == "BatchNormalization"; });
    return OpId(static_cast<std::size_t>(found - graph.ops().begin()));
}

plan::ProblemOptions training(int micro_batches) {
    plan::ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    options.policy.micro_batches = micro_batches;
    options.policy.loss = plan::LossKind::mse;
    return options;
}

TEST(BatchNormalization, OfAWholeBatchIsSplitAlongChannelsAlone) {
    const OpGraph graph = normalized(true);
    const cost::Machine machine = plan::switched_machine(kNormDevices);
    const plan::Problem problem = plan::make_problem(graph, machine, training(1));
    const auto fault_of = [&](const char* factor) {
        const plan::OpConfig halves{plan::axes_named(graph, normalization_of(graph), {{factor, 2}}),
                                    plan::DeviceSet::progression(0, 2, 1)};
        return find_fault(problem, normalization_of(graph), halves, 1).value_or("");
    };
    EXPECT_EQ(fault_of("n"), "factor 'n': cannot be split");
    EXPECT_EQ(fault_of("d2"), "factor 'd2': cannot be split");
    EXPECT_EQ(fault_of("c"), "");
    try {
        plan::make_problem(graph, machine, training(2));
        ADD_FAILURE() << "micro-batches were accepted";
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("(BatchNormalization) mixes samples of the batch"));
    }
}

/// Outputs, running statistics among them, gradients, and parameters after three steps.
void expect_what_one_device_computes(const OpGraph& graph, int most_micro_batches) {
    const cost::Machine machine = plan::switched_machine(kNormDevices);
    const Sources sources(graph, {.model = nullptr, .random_weights = 1, .inputs = {}});
    const plan::Problem problem = plan::make_problem(graph, machine, training(1));
    const auto alone = plan::whole_ops(std::vector<int>(graph.op_count(), 0), problem.policy());
    const Executed expected = executed(problem, alone, sources, 1, 3);
    int split = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        search::Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % most_micro_batches);
        plan::Strategy strategy = plan::random_strategy(random, problem, micro_batches);
        strategy.policy = problem.policy();
        strategy.policy.micro_batches = micro_batches;
        if (plan::find_fault(problem, strategy)) continue;
        if (!strategy.config(normalization_of(graph)).axes.empty()) ++split;
        const Executed actual = executed(problem, strategy, sources, 2, 3);
        const std::string text = "seed " + std::to_string(seed) + ", " + text_of(problem, strategy);
        ASSERT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance) << text;
        ASSERT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance) << text;
        ASSERT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance) << text;
    }
    EXPECT_GE(split, 5);
}

TEST(BatchNormalization, OfAWholeBatchComputesWhatOneDeviceComputes) {
    expect_what_one_device_computes(normalized(true), 1);
}

TEST(BatchNormalization, OfFrozenStatisticsComputesWhatOneDeviceComputes) {
    expect_what_one_device_computes(normalized(false), 2);
}

}  // namespace
}  // namespace partita::runtime
