// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer and loss on a device that is no CPU, whole on one, against the CPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "plan/config.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"

namespace partita::runtime {
namespace {

constexpr double kTolerance = 1e-5;

// A small network: Adam makes a rounding error of a gradient near 0 a whole step.
TEST(PretendGpuTraining, EveryOptimizerAndLossGivesTheSame) {
    const auto file =
        std::filesystem::path(PARTITA_SOURCE_DIR) / "examples" / "runnable" / "mlp" / "model.onnx";
    const importers::OnnxModel model = importers::import_onnx(file, {.bindings = {{"batch", 6}}});
    const cost::Machine machine = plan::switched_machine(1);
    const Sources sources(model.graph, {.model = model.source.get(), .inputs = {}});
    using plan::LossKind;
    using plan::Optimizer;
    for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
        for (const LossKind loss : {LossKind::sum, LossKind::mse, LossKind::cross_entropy}) {
            const plan::Policy policy{.optimizer = optimizer, .loss = loss};
            const plan::Problem problem =
                plan::make_problem(model.graph, machine,
                                   {.mode = plan::Mode::training,
                                    .objective = plan::Objective::step_time,
                                    .policy = policy,
                                    .constraints = {},
                                    .input_sample_dims = model.input_sample_dims});
            const plan::Strategy whole =
                plan::whole_ops(std::vector<int>(model.graph.op_count(), 0), policy);
            const Executed expected = executed(problem, whole, sources, 1, 3);
            const Executed actual = executed_on_pretend_gpus(problem, whole, sources, 1, 3);
            SCOPED_TRACE("optimizer " + std::to_string(static_cast<int>(optimizer)) + ", loss " +
                         std::to_string(static_cast<int>(loss)));
            EXPECT_LE(largest_difference(actual.outputs, expected.outputs), kTolerance);
            EXPECT_LE(largest_difference(actual.gradients, expected.gradients), kTolerance);
            EXPECT_LE(largest_difference(actual.parameters, expected.parameters), kTolerance);
        }
    }
}

}  // namespace
}  // namespace partita::runtime
