// SPDX-License-Identifier: Apache-2.0
//
// The norm of gradients on several devices of a process. Several processes, and whole plans:
// splits_test.cpp.
#include "runtime/execute/clip_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

namespace partita::runtime {
namespace {

at::Tensor square(double value) {
    return at::full({}, value * value, at::TensorOptions().dtype(at::kFloat));
}

double factor(GradientNorm& norm, std::size_t place) {
    return norm.factor(place).item<double>();
}

// RULES.md 18: 3 and 4 are 5 together.
TEST(GradientNorm, IsThatOfAllPlacesTogether) {
    GradientNorm norm(1.0, {at::kCPU, at::kCPU});
    norm.add(0, square(3));
    norm.add(1, square(4));
    EXPECT_NEAR(factor(norm, 0), 0.2, 1e-6);
    EXPECT_NEAR(factor(norm, 1), 0.2, 1e-6);
}

TEST(GradientNorm, LeavesGradientsThatAreSmallEnough) {
    GradientNorm norm(10.0, {at::kCPU, at::kCPU});
    norm.add(0, square(3));
    norm.add(1, square(4));
    EXPECT_EQ(factor(norm, 0), 1.0);
}

TEST(GradientNorm, LeavesGradientsThatAreZero) {
    GradientNorm norm(1.0, {at::kCPU});
    norm.add(0, square(0));
    EXPECT_EQ(factor(norm, 0), 1.0);
}

TEST(GradientNorm, IsFoundAnewInEachIteration) {
    GradientNorm norm(1.0, {at::kCPU, at::kCPU});
    for (const double value : {2.0, 8.0}) {
        norm.add(0, square(value));
        norm.add(1, square(0));
        EXPECT_NEAR(factor(norm, 0), 1 / value, 1e-6);
        EXPECT_NEAR(factor(norm, 1), 1 / value, 1e-6);
    }
}

// The square of a half's largest value is no half.
TEST(ClipWork, AddsUpNarrowGradientsInFloat32) {
    plan::TaskGraph tasks;
    auto regions = std::make_shared<plan::RegionTable>();
    const graph::Region region = graph::whole_region({2});
    plan::Buffer buffer;
    buffer.gradient = true;
    buffer.region = regions->intern(region);
    tasks.buffers.push_back(buffer);
    tasks.regions = std::move(regions);
    const auto norm = std::make_shared<GradientNorm>(1.0, std::vector<at::Device>{at::kCPU});
    const std::vector read = {plan::BufferId(0U)};
    ClipWork work(norm, 0, at::kCPU,
                  {Fetch(tasks, read, region, at::TensorOptions().dtype(at::kHalf))});
    Store store;
    store.values.push_back(at::full({2}, 30'000.0, at::TensorOptions().dtype(at::kHalf)));
    work.run(store);
    EXPECT_NEAR(factor(*norm, 0) * 30'000.0 * std::sqrt(2.0), 1.0, 1e-3);
}

}  // namespace
}  // namespace partita::runtime
