// SPDX-License-Identifier: Apache-2.0
//
// Updates are what their formulas say, written out here in double precision, over several steps.
#include "runtime/execute/update_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "runtime/execute/fetch.h"

namespace partita::runtime {
namespace {

using plan::BufferId;
using plan::Optimizer;

constexpr int kUpdates = 5;
constexpr std::int64_t kElements = 4;
using Values = std::array<double, kElements>;

constexpr Values kStart = {1.0, -2.0, 0.5, 0.0};
/// Of steps whose signs and magnitudes change, so that moments matter.
constexpr std::array<Values, kUpdates> kGradients = {{{0.5, -0.25, 2.0, 1e-3},
                                                      {0.5, 0.75, -1.0, 2e-3},
                                                      {-1.5, 0.5, 0.25, -1e-3},
                                                      {0.125, -0.5, 0.5, 5e-3},
                                                      {1.0, 0.25, -0.75, 0.0}}};
constexpr OptimizerOptions kOptions{
    .rate = 0.125, .momentum = 0.75, .first_decay = 0.8, .second_decay = 0.95, .epsilon = 1e-3};

/// Of one element, step by step (update_work.h).
struct Element {
    double w = 0.0;
    double velocity = 0.0;
    double m = 0.0;
    double s = 0.0;

    void update(Optimizer optimizer, double g, int t) {
        const OptimizerOptions& o = kOptions;
        if (optimizer == Optimizer::sgd) {
            w = w - o.rate * g;
        } else if (optimizer == Optimizer::momentum) {
            velocity = o.momentum * velocity + g;
            w = w - o.rate * velocity;
        } else {
            m = o.first_decay * m + (1 - o.first_decay) * g;
            s = o.second_decay * s + (1 - o.second_decay) * g * g;
            const double mean = m / (1 - std::pow(o.first_decay, t));
            const double square = s / (1 - std::pow(o.second_decay, t));
            w = w - o.rate * mean / (std::sqrt(square) + o.epsilon);
        }
    }
};

template <class Range>
at::Tensor tensor_of(const Range& numbers, at::ScalarType type) {
    const at::Tensor tensor = at::empty({kElements}, at::kDouble);
    std::ranges::copy(numbers, tensor.mutable_data_ptr<double>());
    return tensor.to(type);
}

constexpr BufferId kGradient(0U);
constexpr BufferId kNew(1U);   ///< the new value
constexpr BufferId kCopy(2U);  ///< of the parameter on the device, if it has one

class Updates : public testing::TestWithParam<Optimizer> {
protected:
    Updates() {
        auto regions = std::make_shared<plan::RegionTable>();
        const std::int32_t all = regions->intern(region_);
        for (const bool gradient : {true, false, false}) {
            plan::Buffer buffer;
            buffer.gradient = gradient;
            buffer.region = all;
            tasks_.buffers.push_back(buffer);
        }
        tasks_.regions = std::move(regions);
        store_.values.resize(tasks_.buffers.size());
    }

    [[nodiscard]] UpdateWork work(UpdateWork::Target target, at::ScalarType type) const {
        const std::vector gradient = {kGradient};
        return {GetParam(), kOptions,
                Fetch(tasks_, gradient, region_, at::TensorOptions().dtype(type)),
                std::move(target)};
    }

    /// The parameter begins in kCopy.
    UpdateWork work_on_device(at::ScalarType type) {
        store_[kCopy] = tensor_of(kStart, type);
        return work({.buffer = kNew,
                     .kept = Resident{kCopy, Patch(region_, region_)},
                     .residents = {},
                     .own = {}},
                    type);
    }

    /// After every step the new value, and the copy on the device, are those of the formula.
    void expect_formula(UpdateWork& work, at::ScalarType type, std::optional<BufferId> copy,
                        double tolerance) {
        std::array<Element, kElements> elements;
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i].w = kStart[i];
        for (int t = 1; t <= kUpdates; ++t) {
            const Values& gradient = kGradients[t - 1];
            store_[kGradient] = tensor_of(gradient, type);
            work.run(store_);
            for (std::size_t i = 0; i < elements.size(); ++i) {
                // What a narrow gradient holds of it.
                const double held = store_[kGradient].to(at::kDouble)[i].item<double>();
                elements[i].update(GetParam(), held, t);
                EXPECT_NEAR(store_[kNew].to(at::kDouble)[i].item<double>(), elements[i].w,
                            tolerance)
                    << "step " << t << ", element " << i;
                if (!copy) continue;
                EXPECT_NEAR(store_[*copy].to(at::kDouble)[i].item<double>(), elements[i].w,
                            tolerance)
                    << "the copy, step " << t << ", element " << i;
            }
        }
    }

    graph::Region region_ = graph::whole_region({kElements});
    plan::TaskGraph tasks_;
    Store store_;
};

TEST_P(Updates, OfAParameterOnItsDeviceAreThoseOfTheFormula) {
    UpdateWork work = work_on_device(at::kDouble);
    expect_formula(work, at::kDouble, kCopy, 1e-6);  // moments are float32
}

TEST_P(Updates, OfAParameterElsewhereAreThoseOfTheFormula) {
    UpdateWork work = this->work(
        {.buffer = kNew, .kept = {}, .residents = {}, .own = tensor_of(kStart, at::kFloat)},
        at::kFloat);
    expect_formula(work, at::kFloat, {}, 2e-6);
}

// In 16 bits the sum of small steps would stay where it began: a copy in float32 keeps it.
TEST_P(Updates, OfANarrowParameterAreThoseOfTheFormulaRoundedOnce) {
    UpdateWork work = work_on_device(at::kBFloat16);
    expect_formula(work, at::kBFloat16, kCopy, 0x1p-7 + 1e-5);
}

// The next step is made at another rate; moments do not know of it.
TEST_P(Updates, ScaleWithTheRateOfTheirStep) {
    UpdateWork work = work_on_device(at::kDouble);
    Element element{.w = kStart[0]};
    double before = element.w;
    for (int t = 1; t <= 3; ++t) {
        const double rate = t == 3 ? 512.0 : kOptions.rate;
        work.set_rate(rate);
        store_[kGradient] = tensor_of(kGradients[t - 1], at::kDouble);
        before = store_[kCopy][0].item<double>();
        work.run(store_);
        const double unscaled = element.w;
        element.update(GetParam(), kGradients[t - 1][0], t);
        const double step = (unscaled - element.w) / kOptions.rate;
        EXPECT_NEAR((before - store_[kCopy][0].item<double>()) / rate, step, 1e-6) << "step " << t;
    }
}

INSTANTIATE_TEST_SUITE_P(Of, Updates,
                         testing::Values(Optimizer::sgd, Optimizer::momentum, Optimizer::adam),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace partita::runtime
