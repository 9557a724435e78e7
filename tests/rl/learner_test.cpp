// SPDX-License-Identifier: Apache-2.0
#include "rl/learner.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/rl/rl_cases.h"

namespace partita::rl {
namespace {

using search::Random;

Fixture chain() {
    plan::WorkloadBuilder build;
    build.node("0", 1);
    for (int i = 1; i < 6; ++i) {
        const std::string before = std::to_string(i - 1);
        build.node(std::to_string(i), 1, {before.c_str()});
    }
    return Fixture(build.build(), plan::switched_machine(3));
}

/// The share of decisions that lie on device 2.
double share_of_two(const Choices& choices) {
    const auto count = std::count(choices.options.begin(), choices.options.end(), 2);
    return static_cast<double>(count) / static_cast<double>(choices.options.size());
}

bool equal(const PolicyNet& a, const PolicyNet& b) {
    const auto left = a.parameters();
    const auto right = b.parameters();
    return std::ranges::equal(left, right,
                              [](const auto& x, const auto& y) { return torch::equal(x, y); });
}

class Ways : public testing::TestWithParam<LearnerOptions> {};

// Nothing but the reward says that device 2 is good: no elites, no prior.
TEST_P(Ways, LearnWhatIsRewarded) {
    Fixture f = chain();
    LearnerOptions options = GetParam();
    options.rate = 1e-2;
    options.net.prior = 0;
    options.explore = 0;
    Learner learner(f.space, f.prices, options, nullptr, 1);
    Random random(1);
    for (int step = 0; step < 60; ++step) {
        Batch batch = learner.sample(options.batch, random);
        std::vector<double> rewards;
        for (const Choices& choices : batch.choices) {
            rewards.push_back(share_of_two(choices));
            learner.add_elite(batch, rewards.size() - 1, rewards.back());
        }
        learner.learn(batch, rewards, 0.5);
    }
    const Batch batch = learner.sample_policy(32, 0, random);
    double sum = 0;
    for (const Choices& choices : batch.choices) sum += share_of_two(choices);
    EXPECT_GT(sum / 32, 0.8);
}

INSTANTIATE_TEST_SUITE_P(Learner, Ways,
                         testing::Values(LearnerOptions{.elites = 0},
                                         LearnerOptions{.elites = 4, .elite_weight = 1},
                                         LearnerOptions{.net = {.groups = 4}, .elites = 0}));

TEST(Learner, LeavesThePolicyAloneThatItStartsFrom) {
    Fixture f = chain();
    const auto start = std::make_shared<PolicyNet>();
    const auto before = start->copy();
    Learner learner(f.space, f.prices, {}, start, 1);
    EXPECT_TRUE(equal(*learner.net(), *start));
    Random random(1);
    Batch batch = learner.sample(8, random);
    learner.learn(batch, std::vector<double>{1, 0, 0, 1, 0, 1, 0, 0}, 0.5);
    EXPECT_FALSE(equal(*learner.net(), *start));
    EXPECT_TRUE(equal(*start, *before));
}

TEST(Learner, GoesBackToGoodWeightsWhenSomethingIsNotFinite) {
    Fixture f = chain();
    Learner learner(f.space, f.prices, {}, nullptr, 1);
    Random random(1);
    Batch batch = learner.sample(8, random);
    std::vector<double> rewards(8);
    std::iota(rewards.begin(), rewards.end(), 0.0);
    {
        const at::NoGradGuard no_grad;
        learner.net()->parameters().front().fill_(std::numeric_limits<float>::quiet_NaN());
    }
    EXPECT_TRUE(learner.learn(batch, rewards, 0).undone);
    EXPECT_EQ(learner.restarts(), 1);
    for (const torch::Tensor& parameter : learner.net()->parameters()) {
        EXPECT_TRUE(parameter.isfinite().all().item<bool>());
    }
    Batch next = learner.sample(8, random);
    EXPECT_FALSE(learner.learn(next, rewards, 0).undone);
}

TEST(Learner, ExplodingGradientsAreClipped) {
    Fixture f = chain();
    Learner learner(f.space, f.prices, {.rate = 1e-3, .gradient_norm = 1}, nullptr, 1);
    Random random(1);
    {
        const at::NoGradGuard no_grad;
        learner.net()->parameters().back().mul_(1e6);
    }
    std::vector<double> rewards(8);
    std::iota(rewards.begin(), rewards.end(), 0.0);
    for (int step = 0; step < 5; ++step) {
        Batch batch = learner.sample(8, random);
        learner.learn(batch, rewards, 0);
    }
    for (const torch::Tensor& parameter : learner.net()->parameters()) {
        EXPECT_TRUE(parameter.isfinite().all().item<bool>());
    }
}

}  // namespace
}  // namespace partita::rl
