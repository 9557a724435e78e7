// SPDX-License-Identifier: Apache-2.0
//
// Losses and their gradients are what their formulas say, written out here in double precision,
// however the output is split over devices and micro-batches. The network is a product, y = x w, so
// that the gradient of its weight is x' dL/dy.
#include "runtime/execute/loss_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/made_up_values.h"
#include "runtime/execute/sources.h"
#include "search/support/random.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::runtime {
namespace {

using plan::LossKind;
using Numbers = std::vector<double>;

constexpr int kLossDevices = 4;
constexpr std::int64_t kBatch = 6;
constexpr std::int64_t kSteps = 2;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kClasses = 5;
constexpr std::int64_t kRows = kBatch * kSteps;
constexpr int kClassFactor = 2;  // of the output: d0 d1 d2

graph::OpGraph product() {
    plan::NetworkBuilder builder;
    const auto x = builder.source("x", graph::TensorRole::input, {kBatch, kSteps, kIn});
    builder.add("MatMul", {x, builder.weight({kIn, kClasses})}, {{kBatch, kSteps, kClasses}});
    builder.add_outputs();
    return std::move(builder.graph);
}

Numbers numbers_of(const at::Tensor& tensor) {
    const at::Tensor exact = tensor.to(at::kCPU).to(at::kDouble).contiguous();
    const auto* const first = exact.const_data_ptr<double>();
    return {first, first + exact.numel()};
}
Numbers numbers_of(const graph::HostTensor& tensor) {
    Numbers numbers;
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        float number = 0.0F;
        std::memcpy(&number, tensor.bytes.data() + at, sizeof number);
        numbers.push_back(number);
    }
    return numbers;
}

struct Loss {
    double value = 0.0;
    Numbers gradient;  ///< of y
};

/// `made_up`: in [0, 1), one per element, or row of classes.
Loss sum(const Numbers& y, const std::optional<Numbers>& made_up) {
    Loss loss;
    for (std::size_t i = 0; i < y.size(); ++i) {
        const double weight = made_up ? 2 * (*made_up)[i] : 1.0;
        loss.value += weight * y[i];
        loss.gradient.push_back(weight);
    }
    return loss;
}

Loss mean_squared_error(const Numbers& y, const Numbers& made_up) {
    Loss loss;
    const auto elements = static_cast<double>(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
        loss.value += (y[i] - made_up[i]) * (y[i] - made_up[i]) / elements;
        loss.gradient.push_back(2 * (y[i] - made_up[i]) / elements);
    }
    return loss;
}

Loss cross_entropy(const Numbers& y, const Numbers& made_up) {
    Loss loss;
    for (std::size_t row = 0; row < made_up.size(); ++row) {
        const auto target = static_cast<std::size_t>(made_up[row] * kClasses);
        double exponentials = 0.0;
        for (std::size_t c = 0; c < kClasses; ++c) exponentials += std::exp(y[row * kClasses + c]);
        for (std::size_t c = 0; c < kClasses; ++c) {
            const double probability = std::exp(y[row * kClasses + c]) / exponentials;
            if (c == target) loss.value -= std::log(probability) / kRows;
            loss.gradient.push_back((probability - (c == target ? 1 : 0)) / kRows);
        }
    }
    return loss;
}

/// x' g, rows of y by rows of x.
Numbers gradient_of_weight(const Numbers& x, const Numbers& g) {
    Numbers gradient(kIn * kClasses, 0.0);
    for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t i = 0; i < kIn; ++i) {
            for (std::size_t c = 0; c < kClasses; ++c) {
                gradient[i * kClasses + c] += x[row * kIn + i] * g[row * kClasses + c];
            }
        }
    }
    return gradient;
}

struct Case {
    std::string name;
    LossKind kind = LossKind::sum;
    bool weighs_sums = false;
};

class Losses : public testing::TestWithParam<Case> {
protected:
    Losses()
        : graph_(product()),
          machine_(plan::switched_machine(kLossDevices)),
          policy_{.loss = GetParam().kind},
          problem_(plan::make_problem(graph_, machine_,
                                      {.mode = plan::Mode::training,
                                       .objective = plan::Objective::step_time,
                                       .policy = policy_,
                                       .constraints = {},
                                       .input_sample_dims = {0}})),
          sources_(graph_, {.model = nullptr, .random_weights = 1, .inputs = {}}) {}

    [[nodiscard]] Loss formula(const Numbers& y) const {
        const graph::Op& output = graph_.ops().back();
        const graph::Tensor& tensor = graph_.tensor(output.inputs[0]);
        graph::Shape shape = tensor.shape;
        if (GetParam().kind == LossKind::cross_entropy) shape.pop_back();
        const Numbers made_up =
            numbers_of(made_up_values(kTargetSeed, tensor.name, shape, graph::whole_region(shape)));
        switch (GetParam().kind) {
        case LossKind::sum:
            return sum(y, GetParam().weighs_sums ? std::optional(made_up) : std::nullopt);
        case LossKind::mse: return mean_squared_error(y, made_up);
        case LossKind::cross_entropy: break;
        }
        return cross_entropy(y, made_up);
    }

    void expect_formula(const plan::Strategy& strategy) {
        const plan::TaskGraph tasks = plan::lower(problem_, strategy);
        const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
        Placement placement;
        for (int d = 0; d < kLossDevices; ++d) {
            placement.worker.push_back(d % 2);
            placement.device.emplace_back(at::kCPU);
        }
        Executor executor(
            problem_, tasks,
            make_program(problem_, strategy, tasks, timeline.commit_order, sources_, placement,
                         {.keep_gradients = true, .weigh_sums = GetParam().weighs_sums}),
            placement, {});
        const double loss = executor.run(1).front().loss;
        const Loss expected = formula(numbers_of(executor.outputs()[0]));
        EXPECT_NEAR(loss, expected.value, 1e-5 * (1 + std::abs(expected.value)));
        const graph::Region all = graph::whole_region({kBatch, kSteps, kIn});
        const Numbers gradient =
            gradient_of_weight(numbers_of(sources_.read(source("x"), all)), expected.gradient);
        const Numbers actual = numbers_of(executor.gradients()[0]);
        ASSERT_EQ(actual.size(), gradient.size());
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            EXPECT_NEAR(actual[i], gradient[i], 1e-5 * (1 + std::abs(gradient[i]))) << i;
        }
    }

    [[nodiscard]] graph::TensorId source(const std::string& name) const {
        for (std::size_t i = 0; i < graph_.tensor_count(); ++i) {
            if (graph_.tensor(graph::TensorId(i)).name == name) return graph::TensorId(i);
        }
        return {};
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Policy policy_;
    plan::Problem problem_;
    Sources sources_;
};

TEST_P(Losses, OfOneDeviceAreThoseOfTheFormula) {
    expect_formula(plan::whole_ops(std::vector<int>(problem_.graph().op_count(), 0), policy_));
}

// Shares of parts and of micro-batches add up to the mean over the whole.
TEST_P(Losses, OfPartsAndMicroBatchesAreThoseOfTheFormula) {
    int split = 0;
    int by_classes = 0;
    const graph::OpId output(problem_.graph().op_count() - 1);
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        search::Random random(seed);
        const int micro_batches = 1 + static_cast<int>(seed % 3);
        plan::Strategy strategy = plan::random_strategy(random, problem_, micro_batches);
        strategy.policy = policy_;
        strategy.policy.micro_batches = micro_batches;
        if (plan::find_fault(problem_, strategy)) continue;
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + text_of(problem_, strategy));
        expect_formula(strategy);
        const auto& axes = strategy.config(output).axes;
        if (!axes.empty() || micro_batches > 1) ++split;
        const bool has_classes = std::ranges::any_of(axes, [](const plan::Axis& axis) {
            return axis.is_factor() && axis.factor == kClassFactor;
        });
        if (has_classes) ++by_classes;
    }
    EXPECT_GE(split, 20);
    EXPECT_GE(by_classes, 5);
}

INSTANTIATE_TEST_SUITE_P(Of, Losses,
                         testing::Values(Case{"Sum", LossKind::sum},
                                         Case{"WeighedSum", LossKind::sum, true},
                                         Case{"MeanSquaredError", LossKind::mse},
                                         Case{"CrossEntropy", LossKind::cross_entropy}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace partita::runtime
