// SPDX-License-Identifier: Apache-2.0
#include "rl/policy_net.h"

#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tests/rl/rl_cases.h"

namespace partita::rl {
namespace {

using search::Random;

/// A chain of two nodes on two devices, and what a policy gives each placement.
class SmallSpace : public testing::Test {
protected:
    SmallSpace()
        : f_(plan::WorkloadBuilder().node("a", 3).node("b", 5, {"a"}).node("c", 2, {"a"}).build(),
             plan::switched_machine(2)) {
        torch::manual_seed(7);
    }

    std::vector<Choices> all() const {
        std::vector<Choices> all;
        for (std::int32_t i = 0; i < 8; ++i) all.push_back({0, {i & 1, i >> 1 & 1, i >> 2}});
        return all;
    }
    std::vector<double> probabilities(PolicyNet& net) {
        const at::NoGradGuard no_grad;
        Batch batch = f_.sampler.replay(all());
        const torch::Tensor log = net.score(f_.tensors(), batch.episodes).log_probability;
        std::vector<double> probabilities;
        for (std::int64_t i = 0; i < 8; ++i)
            probabilities.push_back(std::exp(log[i].item<double>()));
        return probabilities;
    }

    Fixture f_;
};

TEST_F(SmallSpace, ProbabilitiesOfAllPlacementsSumToOne) {
    for (const NetOptions& options : {NetOptions{}, NetOptions{.hidden = 8, .prior = 0}}) {
        PolicyNet net(options);
        double sum = 0;
        for (const double probability : probabilities(net)) sum += probability;
        EXPECT_NEAR(sum, 1, 1e-4);
    }
}

TEST_F(SmallSpace, SamplesStepByStepAsOftenAsAllStepsAtOnceSay) {
    PolicyNet net(NetOptions{.prior = 0.5});
    const std::vector<double> probabilities = this->probabilities(net);
    constexpr std::int64_t kDraws = 20'000;
    Random random(4);
    Draws draws;
    draws.count = kDraws;
    const Batch batch = f_.sampler.sample(net, f_.tensors(), draws, random);
    std::vector<std::int64_t> seen(8, 0);
    for (const Choices& choices : batch.choices) {
        ++seen[static_cast<std::size_t>(choices.options[0] | choices.options[1] << 1 |
                                        choices.options[2] << 2)];
    }
    for (std::size_t i = 0; i < 8; ++i) {
        const double expected = probabilities[i] * kDraws;
        EXPECT_NEAR(static_cast<double>(seen[i]), expected, 5 * std::sqrt(expected) + 1) << i;
    }
}

TEST_F(SmallSpace, GreedyIsTheMostProbableStepByStep) {
    PolicyNet net(NetOptions{.prior = 20});
    Draws draws;
    draws.count = draws.greedy = 1;
    Random random(1);
    const Batch batch = f_.sampler.sample(net, f_.tensors(), draws, random);
    // The prior is an earliest-finish schedule: b and c apart, a with the longer one.
    EXPECT_EQ(batch.choices[0].options[0], batch.choices[0].options[1]);
    EXPECT_NE(batch.choices[0].options[1], batch.choices[0].options[2]);
}

// If episodes are drawn with the probabilities that score() gives them, the mean of q / p is 1 for
// any q.
TEST_F(SmallSpace, GroupsAreDrawnAsOftenAsTheirScoresSay) {
    PolicyNet drawn(NetOptions{.groups = 2, .prior = 0.3});
    PolicyNet other(NetOptions{.groups = 2, .prior = 0.3});
    constexpr std::int64_t kDraws = 20'000;
    Random random(4);
    Draws draws;
    draws.count = kDraws;
    Batch batch = f_.sampler.sample(drawn, f_.tensors(), draws, random);
    const at::NoGradGuard no_grad;
    const torch::Tensor p = drawn.score(f_.tensors(), batch.episodes).log_probability;
    const torch::Tensor q = other.score(f_.tensors(), batch.episodes).log_probability;
    const torch::Tensor ratio = (q - p).exp();
    const double spread = ratio.std().item<double>();
    EXPECT_GT(spread, 0.01);
    EXPECT_NEAR(ratio.mean().item<double>(), 1, 5 * spread / std::sqrt(kDraws));
}

TEST(Sampler, GivesTheSameForTheSameSeed) {
    Random shape(2);
    Fixture f(support::random_network(shape, 12), plan::switched_machine(4), training(2));
    torch::manual_seed(3);
    PolicyNet net;
    const auto sample = [&](std::uint64_t seed) {
        Random random(seed);
        Draws draws;
        draws.count = 4;
        draws.whims = 2;
        draws.deviation = 2;
        std::vector<std::vector<std::int32_t>> options;
        for (const Choices& choices : f.sampler.sample(net, f.tensors(), draws, random).choices) {
            options.push_back(choices.options);
        }
        return options;
    };
    EXPECT_EQ(sample(5), sample(5));
    EXPECT_NE(sample(5), sample(6));
}

TEST(Sampler, WhimsChangeNothingButTheLastEpisodes) {
    Random shape(2);
    Fixture f(support::random_network(shape, 12), plan::switched_machine(4), training());
    torch::manual_seed(3);
    PolicyNet net(NetOptions{.prior = 20});
    const auto first_greedy = [&](std::int64_t whims) {
        Random random(1);
        const Draws draws{.count = 8, .greedy = 6, .whims = whims, .deviation = 10};
        Batch batch = f.sampler.sample(net, f.tensors(), draws, random);
        EXPECT_EQ(batch.own, 8 - whims);
        return batch.choices;
    };
    const std::vector<Choices> with = first_greedy(2);
    const std::vector<Choices> without = first_greedy(0);
    for (std::size_t e = 0; e < 6; ++e) EXPECT_EQ(with[e].options, without[e].options);
    EXPECT_NE(with[6].options, with[0].options);
    EXPECT_NE(with[7].options, with[6].options);
}

// A policy that is sure of how an iteration goes never tries another way; its whims do.
TEST(Sampler, WhimsTryOtherWaysToIterate) {
    Random random(2);
    Fixture f(support::random_network(random, 12), plan::switched_machine(4), training());
    ASSERT_GT(f.space.iterations().size(), 1U);
    torch::manual_seed(3);
    PolicyNet net;
    {
        const at::NoGradGuard no_grad;
        torch::Tensor weight = net.named_parameters()["iteration_direct.weight"];
        weight.fill_(-100);            // against everything
        weight.select(1, 1).fill_(0);  // but one batch in one piece
    }
    const Draws draws{.count = 64, .greedy = 0, .whims = 32, .deviation = 200};
    const Batch batch = f.sampler.sample(net, f.tensors(), draws, random);
    const auto others = [&](std::size_t begin) {
        return std::count_if(batch.choices.begin() + begin, batch.choices.begin() + begin + 32,
                             [](const Choices& choices) { return choices.iteration != 0; });
    };
    EXPECT_EQ(others(0), 0);
    EXPECT_GT(others(32), 0);
}

TEST(PolicyNet, ReplayedEpisodesAreThoseThatWereDrawn) {
    Random random(9);
    Fixture f(support::random_network(random, 14), plan::switched_machine(4), training(4));
    PolicyNet net;
    Draws draws;
    draws.count = 5;
    Batch drawn = f.sampler.sample(net, f.tensors(), draws, random);
    Batch replayed = f.sampler.replay(drawn.choices);
    EXPECT_EQ(drawn.episodes.block_rows, replayed.episodes.block_rows);
    EXPECT_EQ(drawn.episodes.kind_rows, replayed.episodes.kind_rows);
    EXPECT_EQ(drawn.episodes.place, replayed.episodes.place);
    EXPECT_EQ(drawn.episodes.kind, replayed.episodes.kind);
    EXPECT_EQ(drawn.episodes.iteration, replayed.episodes.iteration);
}

}  // namespace
}  // namespace partita::rl
