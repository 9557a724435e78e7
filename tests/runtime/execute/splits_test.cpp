// SPDX-License-Identifier: Apache-2.0
//
// Whatever a strategy is, what runs computes what one device computes: outputs, losses, gradients and
// updated parameters, for the runnable models under random splits of everything, in training and inference;
// on the CPU, on two devices that are no CPU, and on GPUs where there are any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>

#include "plan/config.h"
#include "plan/lower.h"
#include "plan/simulate.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program.h"
#include "search/random.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"
#include "tests/runtime/stand_in_device.h"

namespace partita::runtime {
namespace {

using importers::OnnxModel;

struct Example {
    const char* name;
    std::map<std::string, std::int64_t> bindings;
};

int gpu_count() {
    return at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
}

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
constexpr double kTolerance = 2e-4;  // of float32 sums in another order

/// Over threads: workers by turns 1 to 4, each with devices dealt out to it. Over processes: 2 to 4 with
/// blocks of devices from either end, from one worker for all of them to one for each.
enum class Over : std::uint8_t { threads, processes, stand_ins, stand_ins_of_processes, gpus };

RealOnes devices_of(Over over) {
    if (over == Over::threads || over == Over::processes) return kCpu;
    if (over != Over::gpus) return {stand_in_device(0), stand_in_device(1)};
    RealOnes all;
    for (int i = 0; i < gpu_count(); ++i) {
        all.emplace_back(at::kCUDA, static_cast<at::DeviceIndex>(i));
    }
    return all;
}

/// One model under random splits.
class Model {
public:
    explicit Model(const Example& example)
        : model_(importers::import_onnx(std::filesystem::path(PARTITA_SOURCE_DIR) / "examples" /
                                            "runnable" / example.name / "model.onnx",
                                        {.bindings = example.bindings})),
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

    void expect_same_outputs(Over over, std::uint64_t seeds);
    void expect_same_training(Over over, plan::LossKind loss, std::uint64_t seeds);
    void expect_no_waits();
    void expect_same_on_one_stand_in(plan::Optimizer optimizer, plan::LossKind loss);

private:
    Executed alone(const plan::Problem& problem, plan::Policy policy, int iterations,
                   const RealOnes& devices = kCpu) {
        policy.micro_batches = 1;
        const auto whole =
            plan::whole_ops(std::vector<int>(model_.graph.op_count(), 0), std::move(policy));
        return executed(problem, whole, sources_, 1, iterations, devices);
    }

    Executed executed_over(Over over, std::uint64_t seed, const plan::Problem& problem,
                           const plan::Strategy& strategy, int iterations);

    OnnxModel model_;
    cost::Machine machine_;
    Sources sources_;
};

Executed Model::executed_over(Over over, std::uint64_t seed, const plan::Problem& problem,
                              const plan::Strategy& strategy, int iterations) {
    const RealOnes devices = devices_of(over);
    if (over != Over::processes && over != Over::stand_ins_of_processes) {
        return executed(problem, strategy, sources_, 1 + static_cast<int>(seed % 4), iterations,
                        devices);
    }
    constexpr std::array kAlgorithms = {cost::Algorithm::ring, cost::Algorithm::tree,
                                        cost::Algorithm::butterfly, cost::Algorithm::direct};
    return executed_by({.count = 2 + static_cast<int>(seed % 3),
                        .workers = seed % 2 == 0 ? kDevices : 1,
                        .backwards = seed % 5 == 0,
                        .algorithm = kAlgorithms[seed / 2 % kAlgorithms.size()],
                        .devices = devices},
                       problem, strategy, sources_, iterations);
}

void Model::expect_same_outputs(Over over, std::uint64_t seeds) {
    const plan::Problem problem = this->problem(plan::Mode::inference);
    const Executed expected = alone(problem, {}, 1);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        search::Random random(seed);
        const plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        if (plan::find_fault(problem, strategy)) continue;
        const Executed actual = executed_over(over, seed, problem, strategy, 2);
        ASSERT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance)
            << "seed " << seed << ", " << text_of(problem, strategy);
    }
}

void Model::expect_same_training(Over over, plan::LossKind loss, std::uint64_t seeds) {
    const plan::Policy policy{.optimizer = plan::Optimizer::momentum, .loss = loss};
    const plan::Problem problem = this->problem(plan::Mode::training, policy);
    constexpr int kIterations = 3;
    const Executed expected = alone(problem, policy, kIterations);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        search::Random random(seed);
        plan::Strategy strategy =
            plan::random_strategy(random, problem, 1 + static_cast<int>(seed % 2));
        const int micro_batches = strategy.policy.micro_batches;
        strategy.policy = policy;
        strategy.policy.micro_batches = micro_batches;
        if (plan::find_fault(problem, strategy)) continue;
        const Executed actual = executed_over(over, seed, problem, strategy, kIterations);
        const std::string text = "seed " + std::to_string(seed) + ", " + text_of(problem, strategy);
        ASSERT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance) << text;
        ASSERT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance) << text;
        ASSERT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance) << text;
        for (int i = 0; i < kIterations; ++i) {
            ASSERT_NEAR(actual.losses[i], expected.losses[i], kTolerance * (1 + expected.losses[i]))
                << text;
        }
    }
}

/// But for the losses, which are read when all is done.
void Model::expect_no_waits() {
    const plan::Problem problem = this->problem(plan::Mode::training);
    search::Random random(3);
    plan::Strategy strategy = plan::random_strategy(random, problem, 1);
    strategy.policy = {};
    ASSERT_FALSE(plan::find_fault(problem, strategy));
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    Placement placement;
    for (int d = 0; d < kDevices; ++d) {
        placement.worker.push_back(d % 2);
        placement.device.push_back(stand_in_device(d % 2));
    }
    Program program = make_program(problem, strategy, tasks, timeline.commit_order, sources_,
                                   placement, {.optimizer = {}});
    const std::size_t losses = program.losses.size();
    Executor executor(problem, tasks, std::move(program), placement, {});
    static_cast<void>(executor.run(1));
    static_cast<void>(take_waits());
    static_cast<void>(executor.run(1));
    const std::vector<std::string> waits = take_waits();
    EXPECT_THAT(waits, testing::Each("aten::_local_scalar_dense"));
    EXPECT_LE(waits.size(), losses);
}

void Model::expect_same_on_one_stand_in(plan::Optimizer optimizer, plan::LossKind loss) {
    const plan::Policy policy{.optimizer = optimizer, .loss = loss};
    const plan::Problem problem = this->problem(plan::Mode::training, policy);
    const Executed expected = alone(problem, policy, 3);
    const Executed actual = alone(problem, policy, 3, {stand_in_device()});
    EXPECT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance);
    EXPECT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance);
    EXPECT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance);
}

class Splits : public testing::TestWithParam<Example> {
protected:
    Model model_{GetParam()};
};

TEST_P(Splits, InferenceGivesTheSameOutputs) {
    model_.expect_same_outputs(Over::threads, 20);
}

TEST_P(Splits, TrainingGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::threads, plan::LossKind::mse, 20);
}

// Parts of a row of classes would each have a softmax of their own.
TEST_P(Splits, TrainingOfCrossEntropyGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::threads, plan::LossKind::cross_entropy, 10);
}

TEST_P(Splits, InferenceOverProcessesGivesTheSameOutputs) {
    model_.expect_same_outputs(Over::processes, 20);
}

TEST_P(Splits, TrainingOverProcessesGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::processes, plan::LossKind::mse, 20);
}

TEST_P(Splits, InferenceOnStandInsGivesTheSameOutputs) {
    model_.expect_same_outputs(Over::stand_ins, 10);
}

TEST_P(Splits, TrainingOnStandInsGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::stand_ins, plan::LossKind::mse, 10);
}

TEST_P(Splits, TrainingOfCrossEntropyOnStandInsGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::stand_ins, plan::LossKind::cross_entropy, 5);
}

TEST_P(Splits, TrainingOnStandInsOfProcessesGivesTheSameGradientsAndParameters) {
    model_.expect_same_training(Over::stand_ins_of_processes, plan::LossKind::mse, 5);
}

TEST_P(Splits, NoTaskWaitsForItsDevice) {
    model_.expect_no_waits();
}

std::vector<Example> examples() {
    return {{"mlp", {{"batch", 6}}},
            {"convnet", {{"batch", 4}}},
            {"encoder-layer", {{"batch", 4}, {"sequence", 6}}},
            {"lstm", {{"batch", 4}, {"sequence", 5}}},
            {"dlrm-tiny", {{"batch", 6}}}};
}

INSTANTIATE_TEST_SUITE_P(Runnable, Splits, testing::ValuesIn(examples()), name_of);

// Of small numbers without cancellation: Adam makes a rounding error of a gradient near 0 a whole step.
TEST(OneStandIn, RunsEveryOptimizerAndLoss) {
    Model model(examples()[0]);
    using plan::LossKind;
    using plan::Optimizer;
    for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
        for (const LossKind loss : {LossKind::sum, LossKind::mse, LossKind::cross_entropy}) {
            model.expect_same_on_one_stand_in(optimizer, loss);
        }
    }
}

TEST(SplitsOnGpus, GiveTheSame) {
    if (gpu_count() == 0) GTEST_SKIP() << "there is no GPU that LibTorch can use";
    for (const Example& example : examples()) {
        SCOPED_TRACE(example.name);
        Model model(example);
        model.expect_same_outputs(Over::gpus, 20);
        model.expect_same_training(Over::gpus, plan::LossKind::mse, 20);
        model.expect_same_training(Over::gpus, plan::LossKind::cross_entropy, 10);
    }
}

}  // namespace
}  // namespace partita::runtime
