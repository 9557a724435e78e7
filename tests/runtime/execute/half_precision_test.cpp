// SPDX-License-Identifier: Apache-2.0
//
// Networks in 16 bits: what runs computes what one device computes, up to what rounding sums of
// parts to 16 bits makes of them; on CPU devices, on pretend GPUs and, where there are any, on real
// ones.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/dtype.h"
#include "plan/legality/config_legality.h"
#include "runtime/execute/differences.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"
#include "tests/support/random_graph.h"

namespace partita::runtime {
namespace {

constexpr int kNarrowDevices = 4;
constexpr int kIterations = 2;

graph::OpGraph network(search::Random& random, graph::DType dtype) {
    constexpr int kLayers = 6;
    graph::OpGraph graph = support::random_network(random, kLayers);
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        graph.tensor(graph::TensorId(i)).dtype = dtype;
    }
    return graph;
}

void expect_near(const std::string& kind, const std::vector<graph::HostTensor>& actual,
                 const std::vector<graph::HostTensor>& expected) {
    ASSERT_FALSE(expected.empty()) << kind;
    for (const Difference& difference : differences(kind, actual, expected)) {
        EXPECT_LE(difference.relative, difference.tolerance) << difference.what;
    }
}

using Run = Executed (*)(const plan::Problem&, const plan::Strategy&, const Sources&);

/// Random splits of everything, in inference and in training.
void expect_same(graph::DType dtype, Run run) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        search::Random random(seed);
        const graph::OpGraph graph = network(random, dtype);
        const cost::Machine machine = plan::switched_machine(kNarrowDevices);
        const bool trains = seed % 2 == 0;
        const plan::Problem problem = plan::make_problem(
            graph, machine,
            {.mode = trains ? plan::Mode::training : plan::Mode::inference,
             .objective = trains ? plan::Objective::step_time : plan::Objective::latency});
        const Sources sources(graph, {.model = nullptr, .random_weights = seed, .inputs = {}});
        const plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        if (plan::find_fault(problem, strategy)) continue;
        const auto whole = plan::whole_ops(std::vector<int>(graph.op_count(), 0), strategy.policy);
        const Executed expected = executed(problem, whole, sources, 1, kIterations);
        const Executed actual = run(problem, strategy, sources);
        expect_near("output", actual.outputs, expected.outputs);
        if (trains) expect_near("gradient", actual.gradients, expected.gradients);
        if (trains) expect_near("parameter", actual.parameters, expected.parameters);
        ++compared;
    }
    EXPECT_GT(compared, 8);
}

class HalfPrecision : public testing::TestWithParam<graph::DType> {};

TEST_P(HalfPrecision, SplitsGiveTheSameOnCpus) {
    expect_same(GetParam(), [](const auto& problem, const auto& strategy, const auto& sources) {
        return executed(problem, strategy, sources, 2, kIterations);
    });
}

TEST_P(HalfPrecision, SplitsGiveTheSameOverProcesses) {
    expect_same(GetParam(), [](const auto& problem, const auto& strategy, const auto& sources) {
        return executed_by({.count = 2}, problem, strategy, sources, kIterations);
    });
}

TEST_P(HalfPrecision, SplitsGiveTheSameOnPretendGpus) {
    expect_same(GetParam(), [](const auto& problem, const auto& strategy, const auto& sources) {
        return executed_on_pretend_gpus(problem, strategy, sources, 2, kIterations);
    });
}

class HalfPrecisionOnCuda : public HalfPrecision {};

TEST_P(HalfPrecisionOnCuda, SplitsGiveTheSame) {
    if (cuda_gpus() == 0) GTEST_SKIP() << "no GPU here";
    expect_same(GetParam(), [](const auto& problem, const auto& strategy, const auto& sources) {
        return executed_on_cuda(problem, strategy, sources, cuda_gpus(), kIterations);
    });
}

const auto kTypes = testing::Values(graph::DType::float16, graph::DType::bfloat16);

std::string name_of_type(const testing::TestParamInfo<graph::DType>& type) {
    return std::string(graph::name_of(type.param));
}

INSTANTIATE_TEST_SUITE_P(Types, HalfPrecision, kTypes, name_of_type);
INSTANTIATE_TEST_SUITE_P(Types, HalfPrecisionOnCuda, kTypes, name_of_type);

}  // namespace
}  // namespace partita::runtime
