// SPDX-License-Identifier: Apache-2.0
//
// Whatever a strategy is, what runs computes what one device computes: outputs, losses, gradients
// and updated parameters, for the runnable models under random splits of everything, in training
// and inference. On pretend GPUs nothing may depend on what streams happen to do first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include <ATen/Functions.h>

#include "graph/fusion/fuse.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "runtime/kernels/tensors.h"
#include "search/support/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"
#include "tests/support/draws.h"
#include "tests/support/paths.h"

namespace partita::runtime {
namespace {

using importers::OnnxModel;

struct Example {
    const char* name;
    std::map<std::string, std::int64_t> bindings;
};

/// As GoogleTest prints it.
void PrintTo(const Example& example, std::ostream* out) {  // NOLINT(readability-identifier-naming)
    *out << example.name;
}

std::string name_of(const testing::TestParamInfo<Example>& info) {
    std::string name = info.param.name;
    std::erase(name, '-');
    return name;
}

constexpr int kDevices = 6;
const plan::Policy kMse{.optimizer = plan::Optimizer::momentum, .loss = plan::LossKind::mse};

class Splits : public testing::TestWithParam<Example> {
protected:
    Splits()
        : model_(importers::import_onnx(
              tests::repository() / "examples" / "runnable" / GetParam().name / "model.onnx",
              {.bindings = GetParam().bindings})),
          machine_(plan::switched_machine(kDevices)),
          sources_(model_.graph, {.model = model_.source.get(), .inputs = {}}) {}

    plan::Problem problem(plan::Mode mode, plan::Policy policy = {}) {
        return plan::make_problem(
            model_.graph, machine_,
            {.mode = mode,
             .objective = mode == plan::Mode::training ? plan::Objective::step_time
                                                       : plan::Objective::latency,
             .policy = std::move(policy),
             .constraints = {},
             .input_sample_dims = model_.input_sample_dims});
    }

    Executed alone(const plan::Problem& problem, plan::Policy policy, int iterations) {
        policy.micro_batches = 1;
        const auto whole =
            plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), std::move(policy));
        return executed(problem, whole, sources_, 1, iterations);
    }

    /// Over threads: workers by turns 1 to 4, each with devices dealt out to it. Over processes: 2
    /// to 4 with blocks of devices from either end, from one worker for all of them to one for
    /// each. Over pretend GPUs: one for all devices to one for each, also of 2 to 4 processes, and
    /// with CPUs between them. Over CUDA: as many as there are.
    enum class Over : std::uint8_t {
        threads,
        processes,
        pretend_gpus,
        gpus_of_processes,
        cpus_and_gpus,
        cuda
    };
    Executed executed_over(Over over, std::uint64_t seed, const plan::Problem& problem,
                           const plan::Strategy& strategy, int iterations);

    // Of so many random strategies; most are legal, and compared.
    void expect_same_outputs(Over over, std::uint64_t seeds);
    void expect_same_training(Over over, const plan::Policy& policy, std::uint64_t seeds);
    void expect_same_training(const plan::Problem& problem, const plan::Strategy& strategy,
                              const Executed& actual, const Executed& expected);

    OnnxModel model_;
    cost::Machine machine_;
    Sources sources_;
};

Executed Splits::executed_over(Over over, std::uint64_t seed, const plan::Problem& problem,
                               const plan::Strategy& strategy, int iterations) {
    if (over == Over::threads) {
        return executed(problem, strategy, sources_, 1 + static_cast<int>(seed % 4), iterations);
    }
    if (over == Over::cuda) {
        const int gpus = 1 + static_cast<int>(seed) % std::min(kDevices, cuda_gpus());
        return executed_on_cuda(problem, strategy, sources_, gpus, iterations);
    }
    if (over == Over::pretend_gpus) {
        Executed result = executed_on_pretend_gpus(
            problem, strategy, sources_, 1 + static_cast<int>(seed % kDevices), iterations);
        EXPECT_EQ(races(), std::vector<std::string>()) << "seed " << seed;
        return result;
    }
    if (over == Over::cpus_and_gpus) {
        Executed result =
            executed_on_cpus_and_pretend_gpus(problem, strategy, sources_, iterations);
        EXPECT_EQ(races(), std::vector<std::string>()) << "seed " << seed;
        return result;
    }
    if (over == Over::gpus_of_processes) {
        const int processes = 2 + static_cast<int>(seed % 3);
        Executed result =
            executed_by({.count = processes, .on_pretend_gpus = true, .workers = kDevices}, problem,
                        strategy, sources_, iterations);
        EXPECT_EQ(races(), std::vector<std::string>()) << "seed " << seed;
        return result;
    }
    constexpr std::array kAlgorithms = {cost::Algorithm::ring, cost::Algorithm::tree,
                                        cost::Algorithm::butterfly, cost::Algorithm::direct};
    return executed_by({.count = 2 + static_cast<int>(seed % 3),
                        .workers = seed % 2 == 0 ? kDevices : 1,
                        .backwards = seed % 5 == 0,
                        .algorithm = kAlgorithms[seed / 2 % kAlgorithms.size()]},
                       problem, strategy, sources_, iterations);
}

void Splits::expect_same_outputs(Over over, std::uint64_t seeds) {
    std::uint64_t compared = 0;
    const plan::Problem problem = this->problem(plan::Mode::inference);
    const Executed expected = alone(problem, {}, 1);
    for (const std::uint64_t seed : support::seeds(seeds)) {
        search::Random random(seed);
        const plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        if (plan::find_fault(problem, strategy)) continue;
        const Executed actual = executed_over(over, seed, problem, strategy, 2);
        ASSERT_FALSE(expected.outputs.empty());
        ++compared;
        ASSERT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance)
            << "seed " << seed << ", " << text_of(problem, strategy);
    }
    EXPECT_GE(4 * compared, 3 * support::draws(seeds));
}

void Splits::expect_same_training(Over over, const plan::Policy& policy, std::uint64_t seeds) {
    std::uint64_t compared = 0;
    const plan::Problem problem = this->problem(plan::Mode::training, policy);
    constexpr int kTurns = 3;
    const Executed expected = alone(problem, policy, kTurns);
    for (const std::uint64_t seed : support::seeds(seeds)) {
        search::Random random(seed);
        plan::Strategy strategy =
            plan::random_strategy(random, problem, 1 + static_cast<int>(seed % 2));
        const int micro_batches = strategy.policy.micro_batches;
        strategy.policy = policy;
        strategy.policy.micro_batches = micro_batches;
        strategy.policy.schedule = {};  // few of these are pipelines
        if (plan::find_fault(problem, strategy)) continue;
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_same_training(problem, strategy,
                             executed_over(over, seed, problem, strategy, kTurns), expected);
        if (HasFatalFailure()) return;
        ++compared;
    }
    EXPECT_GE(4 * compared, 3 * support::draws(seeds));
}

void Splits::expect_same_training(const plan::Problem& problem, const plan::Strategy& strategy,
                                  const Executed& actual, const Executed& expected) {
    const std::string text = text_of(problem, strategy);
    ASSERT_FALSE(expected.outputs.empty() || expected.gradients.empty() ||
                 expected.parameters.empty());
    ASSERT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance) << text;
    ASSERT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance) << text;
    ASSERT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance) << text;
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
        ASSERT_NEAR(actual.losses[i], expected.losses[i], kTolerance * (1 + expected.losses[i]))
            << text;
    }
}

TEST_P(Splits, InferenceGivesTheSameOutputs) {
    expect_same_outputs(Over::threads, 8);
}

TEST_P(Splits, TrainingGivesTheSameGradientsAndParameters) {
    expect_same_training(Over::threads, kMse, 8);
}

// Rows of classes are split as well.
TEST_P(Splits, TrainingOfCrossEntropyGivesTheSameGradientsAndParameters) {
    const plan::Policy policy{.optimizer = plan::Optimizer::momentum,
                              .loss = plan::LossKind::cross_entropy};
    expect_same_training(Over::threads, policy, 6);
    expect_same_training(Over::processes, policy, 3);
    expect_same_training(Over::pretend_gpus, policy, 3);
}

// Every other parameter: what is before the first that is trained has no backward.
TEST_P(Splits, TrainingWithFrozenParametersGivesTheSameGradientsAndParameters) {
    plan::Policy policy = kMse;
    std::size_t trained = 0;
    for (const graph::Op& op : model_.graph.ops()) {
        if (op.kind != graph::OpKind::parameter) continue;
        if (!is_floating_point(model_.graph.tensor(op.outputs[0]).dtype)) continue;
        if (policy.frozen.size() <= trained) {
            policy.frozen.push_back(op.name);
        } else {
            ++trained;
        }
    }
    const plan::Problem problem = this->problem(plan::Mode::training, policy);
    EXPECT_LE(alone(problem, policy, 1).parameters.size(), trained);
    expect_same_training(Over::threads, policy, 6);
}

// Some blocks of layers compute once more for the backward what they do not keep.
TEST_P(Splits, TrainingThatRecomputesGivesTheSameGradientsAndParameters) {
    plan::Policy policy = kMse;
    policy.recompute = plan::Recompute::automatic;
    policy.gather_again = true;
    // Until two blocks hold something that the backward reads.
    bool any = false;
    for (std::uint64_t seed = 1; seed <= 100 && !any; ++seed) {
        search::Random random(seed);
        model_.graph = plan::in_layer_blocks(random, std::move(model_.graph));
        any = problem(plan::Mode::training, policy).facts().recompute().any();
    }
    ASSERT_TRUE(any);
    expect_same_training(Over::threads, policy, 5);
    expect_same_training(Over::processes, policy, 3);
    expect_same_training(Over::pretend_gpus, policy, 3);
}

double norm_of(const std::vector<graph::HostTensor>& tensors) {
    double squares = 0;
    for (const graph::HostTensor& tensor : tensors) {
        const at::Tensor values = to_aten(tensor).to(at::kDouble);
        squares += values.square().sum().item<double>();
    }
    return std::sqrt(squares);
}

// The norm is that of all gradients, whoever holds them, each replica counted once.
TEST_P(Splits, TrainingThatClipsGradientsGivesTheSameGradientsAndParameters) {
    plan::Policy policy = kMse;
    const double norm = norm_of(alone(problem(plan::Mode::training, policy), policy, 1).gradients);
    policy.clip_norm = norm / 4;
    const plan::Problem problem = this->problem(plan::Mode::training, policy);
    EXPECT_NEAR(norm_of(alone(problem, policy, 1).gradients),
                policy.clip_norm * norm / (norm + 1e-6), 1e-4 * norm);
    expect_same_training(Over::threads, policy, 5);
    expect_same_training(Over::processes, policy, 4);
    expect_same_training(Over::pretend_gpus, policy, 3);
    expect_same_training(Over::gpus_of_processes, policy, 2);
    expect_same_training(Over::cpus_and_gpus, policy, 2);
}

// As a schedule that fills its bubbles with them has it.
TEST_P(Splits, TrainingWithGradientsOfWeightsApartGivesTheSameGradientsAndParameters) {
    plan::Policy policy = kMse;
    policy.schedule = {.kind = plan::ScheduleKind::zero_bubble_h1};
    expect_same_training(Over::threads, policy, 5);
    expect_same_training(Over::processes, policy, 3);
    expect_same_training(Over::pretend_gpus, policy, 3);
}

TEST_P(Splits, InferenceOverProcessesGivesTheSameOutputs) {
    expect_same_outputs(Over::processes, 8);
}

TEST_P(Splits, TrainingOverProcessesGivesTheSameGradientsAndParameters) {
    expect_same_training(Over::processes, kMse, 8);
}

TEST_P(Splits, InferenceOnPretendGpusGivesTheSameOutputs) {
    expect_same_outputs(Over::pretend_gpus, 8);
}

TEST_P(Splits, TrainingOnPretendGpusGivesTheSameGradientsAndParameters) {
    expect_same_training(Over::pretend_gpus, kMse, 8);
}

TEST_P(Splits, TrainingOnGpusOfProcessesGivesTheSameGradientsAndParameters) {
    (void)nccl_groups_made();
    expect_same_training(Over::gpus_of_processes, kMse, 4);
    EXPECT_GT(nccl_groups_made(), 0);
}

TEST_P(Splits, CpusBesidePretendGpusGiveTheSame) {
    expect_same_outputs(Over::cpus_and_gpus, 4);
    expect_same_training(Over::cpus_and_gpus, kMse, 3);
}

TEST_P(Splits, NoTaskOnPretendGpusWaitsForItsDevice) {
    const plan::Problem problem = this->problem(plan::Mode::training);
    int ran = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        search::Random random(seed);
        plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        strategy.policy = {};
        if (plan::find_fault(problem, strategy)) continue;
        EXPECT_EQ(
            waits_on_pretend_gpus(problem, strategy, sources_, 1 + static_cast<int>(seed % 3)),
            std::vector<std::string>())
            << "seed " << seed;
        ++ran;
    }
    EXPECT_GE(ran, 5);
}

// Stages on nodes, each op on all devices of its stage: what crosses to a node is gathered there.
TEST_P(Splits, WhatNodesGatherGivesTheSame) {
    constexpr int kStages = 3;
    machine_ = plan::machine_of_nodes(kStages, kDevices / kStages);
    const plan::Problem problem = this->problem(plan::Mode::training, kMse);
    const Executed expected = alone(problem, kMse, 3);
    int gathers = 0;
    for (const std::uint64_t seed : support::seeds(16)) {
        search::Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 2);
        const plan::Strategy strategy =
            plan::shared_stages(random, problem, kStages, micro_batches);
        if (plan::find_fault(problem, strategy)) continue;
        const int gathers_here = plan::gathers_in_nodes(plan::lower(problem, strategy));
        if (gathers_here == 0) continue;
        gathers += gathers_here;
        const Over over = std::array{Over::threads, Over::processes, Over::pretend_gpus,
                                     Over::gpus_of_processes}[seed % 4];
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_same_training(problem, strategy, executed_over(over, seed, problem, strategy, 3),
                             expected);
        if (HasFatalFailure()) return;
    }
    EXPECT_GE(gathers, support::draws(5));
}

class SplitsOfKernels : public Splits {};

// Ops that run as one kernel.
TEST_P(SplitsOfKernels, GiveTheSame) {
    model_.graph =
        graph::fused(model_.graph, {"bias-gelu", "Add(x, y)"}, GetParam().name, {}).graph;
    expect_same_outputs(Over::threads, 8);
    expect_same_training(Over::threads, kMse, 8);
    expect_same_training(Over::processes, kMse, 4);
    expect_same_training(Over::pretend_gpus, kMse, 4);
}

class SplitsOnCuda : public Splits {};

TEST_P(SplitsOnCuda, GiveTheSame) {
    if (cuda_gpus() == 0) GTEST_SKIP() << "no GPU here";
    expect_same_outputs(Over::cuda, 8);
    expect_same_training(Over::cuda, kMse, 8);
}

const auto kExamples = testing::Values(
    Example{"mlp", {{"batch", 6}}}, Example{"convnet", {{"batch", 4}}},
    Example{"encoder-layer", {{"batch", 4}, {"sequence", 6}}},
    Example{"lstm", {{"batch", 4}, {"sequence", 5}}}, Example{"dlrm-tiny", {{"batch", 6}}});

INSTANTIATE_TEST_SUITE_P(Runnable, Splits, kExamples, name_of);
INSTANTIATE_TEST_SUITE_P(Runnable, SplitsOfKernels,
                         testing::Values(Example{"encoder-layer", {{"batch", 4}, {"sequence", 6}}}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Runnable, SplitsOnCuda, kExamples, name_of);

class OneGpu : public Splits {};

TEST_P(OneGpu, RunsEveryOptimizerAndLoss) {
    using plan::LossKind;
    using plan::Optimizer;
    for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
        for (const LossKind loss : {LossKind::sum, LossKind::mse, LossKind::cross_entropy}) {
            // It ends in a softmax, whose sum is 1 whatever the weights are: its gradients are
            // rounding errors, which differ between processors, and of each Adam makes a step.
            if (optimizer == Optimizer::adam && loss == LossKind::sum) continue;
            const plan::Policy policy{.optimizer = optimizer, .loss = loss};
            const plan::Problem problem = this->problem(plan::Mode::training, policy);
            const plan::Strategy whole =
                plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), policy);
            const Executed expected = alone(problem, policy, 3);
            const Executed actual = executed_on_pretend_gpus(problem, whole, sources_, 1, 3);
            EXPECT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance);
            EXPECT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance);
            EXPECT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Runnable, OneGpu, testing::Values(Example{"mlp", {{"batch", 6}}}),
                         name_of);

}  // namespace
}  // namespace partita::runtime
